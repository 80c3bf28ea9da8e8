// The fault that was asked for, while training runs: what settings alone cannot do
// (training/faults.hpp has the table).
//
// The first updates are good ones, and their length is the measure: a fault adds
// settings.fault_share of it.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "reference_trainer/compute_device.hpp"
#include "reference_trainer/data/loader.hpp"
#include "reference_trainer/distributed.hpp"
#include "reference_trainer/step_marks.hpp"
#include "reference_trainer/virtual_gpus.hpp"
#include "training/faults.hpp"

namespace lockstep {

class DeliberateFault {
 public:
  DeliberateFault(const TrainSettings& settings, const Distributed& ranks);

  bool is(TrainFault fault) const { return row_ != nullptr && row_->fault == fault; }
  // For people; empty: training is as good as it can be.
  std::string description() const;

  // At the begin of every update: measures the good ones, and makes the loader slow when they are
  // over.
  void begin_update(Loader& loader);
  // Within a pass.
  void slow_down(ComputeDevice& device, VirtualGpus& gpus, StepMarks& marks);

  // What the fault may touch after an update.
  struct Surroundings {
    StepMarks& marks;
    VirtualGpus& gpus;
    const std::vector<Tensor>& losses;
    const std::vector<Tensor>& parameters;
    const std::function<void()>& evaluate;  // one pass without gradients
  };
  void after_update(const Surroundings& around);

 private:
  using Clock = std::chrono::nanoseconds;
  bool is_on() const { return row_ != nullptr && amount_ > Clock{}; }
  bool is_last_rank() const { return ranks_.rank() == ranks_.world() - 1; }
  bool is_due();  // a stall of the kind that comes every few seconds

  const FaultRow* const row_;  // nullptr: none
  const double share_;
  const Distributed& ranks_;
  std::vector<Clock> good_;  // lengths of the first updates
  Clock last_begin_{};
  Clock amount_{};  // 0: still good
  Clock last_stall_{};
  std::int64_t updates_ = 0;
};

}  // namespace lockstep
