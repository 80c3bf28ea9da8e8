// The kinds of numbers: what autocast computes with, and the scale that keeps fp16 gradients from
// vanishing.
#pragma once

#include <cstdint>
#include <string>

#include "reference_trainer/distributed.hpp"
#include "reference_trainer/torch_headers.hpp"

namespace lockstep {

enum class Precision : std::uint8_t { fp32, tf32, bf16, fp16 };
// "auto": bf16 on CUDA, fp32 on the CPU.
Precision precision_named(const std::string& name, bool on_cuda);
// Allows TF32 where it was chosen; once, at start.
void allow_tensor_cores(Precision precision);

// Within its life forward passes of this thread compute in the chosen precision.
class Autocast {
 public:
  Autocast(Precision precision, c10::DeviceType device);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

  // What this thread computes in now: fp32 where no Autocast lives.
  static Precision of_this_thread(c10::DeviceType device);

 private:
  const c10::DeviceType device_;
  const bool active_;
};

// fp16's loss scale: doubled after 2000 good updates, halved when a gradient overflowed on any
// rank, whose update is then left out on all of them. Nothing here makes the host wait for a GPU.
class LossScaler {
 public:
  LossScaler(bool enabled, at::Device device);

  bool enabled() const { return enabled_; }
  const Tensor& scale() const { return scale_; }
  // Divides the gradients by the scale; those of one device in each list.
  void unscale(const std::vector<std::vector<Tensor>>& gradients, const Distributed& ranks);
  // 1 when a gradient of some rank was not finite, and the update must be left out; else 0.
  // Undefined without a scaler.
  const Tensor& found_inf() const { return found_inf_; }
  void update();

  const Tensor& good_updates() const { return good_updates_; }

 private:
  const bool enabled_;
  Tensor scale_;
  Tensor good_updates_;
  Tensor found_inf_;
};

}  // namespace lockstep
