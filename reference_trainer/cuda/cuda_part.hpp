// What only a build with CUDA has. It lies in a library of its own
// (lib/lockstep/liblockstep_train_cuda.so), opened when a GPU is asked for: a run on the CPU never
// loads CUDA's gigabytes, and a build without CUDA has everything else.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "reference_trainer/compute_device.hpp"
#include "reference_trainer/model/gpt_weights.hpp"
#include "reference_trainer/torch_headers.hpp"
#include "training/model_shapes.hpp"

namespace lockstep {

// A stretch of work recorded once and played again.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  virtual void play() = 0;
};

// A model's pass in kernels of our own.
class FusedPass {
 public:
  virtual ~FusedPass() = default;
  // The mean loss over all targets; backward goes through it as through any other.
  virtual Tensor loss(const Tensor& tokens, const Tensor& targets) = 0;
};

// Tensors of one decay, place by place.
struct UpdatedTensors {
  std::vector<Tensor> values, gradients, first_moments, second_moments;
  double weight_decay = 0;
};

struct AdamwNumbers {
  double rate, beta1, beta2, epsilon, clip;  // clip 0: none
};

// An optimizer's update in kernels of our own.
class FusedUpdate {
 public:
  virtual ~FusedUpdate() = default;
  // `steps_done`: a float on the GPU, this update counted. The gradient's length before clipping
  // comes back, where it is clipped.
  virtual Tensor step(const std::vector<UpdatedTensors>& groups, const AdamwNumbers& numbers,
                      const Tensor& steps_done, bool clear) = 0;
};

class CudaPart {
 public:
  virtual ~CudaPart() = default;
  virtual int device_count() const = 0;
  virtual void use_device(int index) const = 0;  // for the calling thread
  virtual std::string device_name(int index) const = 0;
  virtual DeviceMemory memory(int index) const = 0;
  virtual std::int64_t total_memory(int index) const = 0;
  virtual int nccl_version() const = 0;  // 22809 is 2.28.9
  virtual c10::intrusive_ptr<c10d::Backend> make_nccl(const c10::intrusive_ptr<c10d::Store>& store,
                                                      int rank, int world,
                                                      std::chrono::milliseconds timeout) const = 0;
  // Runs `work` three times to warm up, then records it.
  virtual std::unique_ptr<RecordedWork> record(const std::function<void()>& work) const = 0;
  // For parameters that lie on a GPU. Nothing where this build has no kernels, or none for that GPU
  // or shape.
  virtual std::unique_ptr<FusedPass> make_fused_gpt(const GptWeights& weights,
                                                    const ModelShape& shape) const = 0;
  // nothing: this build has no kernels
  virtual std::unique_ptr<FusedUpdate> make_fused_adamw(at::Device device) const = 0;
};

// Nothing: this build or this machine has no CUDA; why_no_cuda() says which.
const CudaPart* cuda_part();
const std::string& why_no_cuda();

}  // namespace lockstep
