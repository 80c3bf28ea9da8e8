// The ways to use several devices, behind one interface: a pass (forward and backward of one
// batch), and who holds which parameters.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "reference_trainer/compute_device.hpp"
#include "reference_trainer/data/dataset.hpp"
#include "reference_trainer/distributed.hpp"
#include "reference_trainer/model/model.hpp"
#include "reference_trainer/precision.hpp"
#include "reference_trainer/step_marks.hpp"
#include "reference_trainer/virtual_gpus.hpp"

namespace lockstep {

struct PassOptions {
  double loss_weight = 1;  // what the loss counts in the update: one over the passes of it
  Tensor loss_scale;       // fp16: undefined for none
  bool exchange = true;    // average the gradients over all ranks in this pass
  bool is_first = true;    // of its update
};

// Backward of a pass: the loss with its weight, and fp16's scale.
void backward_of(const Tensor& loss, const PassOptions& options);

// Parameters that one device trains.
struct DeviceParameters {
  ComputeDevice* device = nullptr;
  std::vector<Parameter> parameters;
};

class Strategy {
 public:
  virtual ~Strategy() = default;

  // Forward and backward. Gradients are added to the parameters'; the loss comes back as it is, on
  // its device, and the host does not wait for it on CUDA.
  virtual Tensor pass(const Batch& batch, const PassOptions& options, StepMarks& marks) = 0;
  // Whether an update's first pass overwrites the gradients of the last: then nobody needs to clear
  // them.
  virtual bool overwrites_gradients() const { return false; }
  // Before the first pass of a run, new or resumed: whatever is learnt from a first pass is learnt
  // here.
  virtual void warm_up(const Batch&) {}
  virtual const std::vector<DeviceParameters>& parameters() const = 0;
  // How the work is split, for people.
  virtual std::string description() const = 0;
};

struct StrategyOptions {
  const TrainSettings& settings;
  Precision precision;
  const Distributed& ranks;
  std::vector<ComputeDevice*> devices;  // of this process
  VirtualGpus& virtual_gpus;
};
// settings.parallel must be decided. The model must outlive it; its parameters are moved to the
// devices.
std::unique_ptr<Strategy> make_strategy(Model& model, const StrategyOptions& options);

}  // namespace lockstep
