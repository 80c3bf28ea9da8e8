// AdamW in one call a device, after clipping by the norm over all parameters of all devices; and
// the learning rate's course.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reference_trainer/cuda/cuda_part.hpp"
#include "reference_trainer/parallel/strategy.hpp"
#include "reference_trainer/precision.hpp"

namespace lockstep {

struct OptimizerOptions {
  double weight_decay = 0.1;  // of tensors with two dimensions or more
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double clip = 1;    // 0: not at all
  bool fused = true;  // kernels of our own where they fit: one GPU, no loss scale
};

// Straight up to the highest rate, then down half a cosine to the least.
double learning_rate_at(std::int64_t update, const TrainSettings& settings, std::int64_t updates);

// One tensor of the optimizer's state, for checkpoints.
struct OptimizerState {
  std::string name;
  Tensor value;
};

class Optimizer {
 public:
  Optimizer(const std::vector<DeviceParameters>& parameters, const OptimizerOptions& options);

  // Changes the parameters, and clears their gradients unless the next pass overwrites them anyway.
  // Left out when a gradient of some rank was not finite.
  void step(double learning_rate, LossScaler& scaler, const Distributed& ranks, bool clear = true);
  void clear_gradients();
  // Length of the last gradient, before clipping, where it was asked for.
  double last_norm() const;

  std::vector<OptimizerState> state() const;  // shared with the optimizer: copying into it restores

 private:
  // Parameters of one device that share a decay.
  struct Group {
    ComputeDevice* device = nullptr;
    double weight_decay = 0;
    std::vector<std::string> names;
    std::vector<Tensor> values;
    std::vector<Tensor> first_moments;
    std::vector<Tensor> second_moments;
    std::vector<Tensor> steps;
    std::vector<Tensor> gradients() const;
  };
  void on_each_device(const std::function<void(Group&)>& work);
  void fused_step(double learning_rate, bool clear);
  void clip_gradients();

  const OptimizerOptions options_;
  std::vector<Group> groups_;  // those of a device are neighbours
  Tensor by_name_;  // the parameters' places in the groups, in the order of their names: ranks that
                    // cut the model otherwise must add the norms in the same order, or their
                    // weights drift apart bit by bit
  Tensor norm_;     // of the last update
  std::unique_ptr<FusedUpdate> fused_;  // nothing: ATen's
};

}  // namespace lockstep
