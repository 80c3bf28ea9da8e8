// torch.nn.DataParallel: one process, a copy of the model on every device, and device 0 does
// everything else. Each pass sends the weights out, gathers the outputs, computes the loss on
// device 0, and adds the gradients up there. It is here to be compared with.
#pragma once

#include "reference_trainer/parallel/strategy.hpp"

namespace lockstep {

class DataParallel : public Strategy {
 public:
  DataParallel(Model& model, const StrategyOptions& options);

  Tensor pass(const Batch& batch, const PassOptions& options, StepMarks& marks) override;
  const std::vector<DeviceParameters>& parameters() const override { return parameters_; }
  std::string description() const override;

 private:
  void send_weights();
  void add_gradients(std::size_t copies);

  Model& model_;  // device 0's
  const Precision precision_;
  std::vector<ComputeDevice*> devices_;
  std::vector<std::unique_ptr<Model>> copies_;  // of devices 1 and on
  std::vector<DeviceParameters> parameters_;
};

}  // namespace lockstep
