// What is asked of the planner.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/setting.hpp"
#include "model/workload.hpp"

namespace lockstep {

struct PlanRequest {
  PlannedMachine machine;
  std::vector<std::string> notes;  // what was taken for granted of the machine or the model
  Workload workload;
  std::optional<std::int64_t> target_batch;       // samples an update, over all GPUs
  std::optional<std::int64_t> tokens_per_update;  // the same in tokens
  std::optional<std::int64_t> micro_batch;        // fixed by the user
  std::optional<SplitStrategy> strategy;          // likewise
  std::optional<bool> checkpointing;              // likewise
  std::optional<double> tokens;                   // to train on
  Calibration calibration;
  bool calibrated = false;
  std::vector<SplitStrategy> allowed;  // empty: all
  std::int64_t most_samples = 1024;    // in a pass
  // GPUs that hold one copy, fixed by the user; 0: open
  int group = 0;
};

}  // namespace lockstep
