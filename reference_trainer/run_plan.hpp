// What the settings come to on this machine and rank: the device, the split, the batch.
#pragma once

#include <string>
#include <vector>

#include "reference_trainer/distributed.hpp"
#include "reference_trainer/precision.hpp"
#include "training/batch_plan.hpp"
#include "training/model_shapes.hpp"

namespace lockstep {

struct RunPlan {
  ModelShape shape;
  c10::DeviceType device = c10::DeviceType::CPU;
  std::vector<int> devices;  // of this process, by their number on the machine
  int all_devices = 1;       // of all ranks
  Precision precision = Precision::fp32;
  GroupOptions group;
  BatchPlan batch;
  std::int64_t samples_per_pass = 1;  // of this rank
};

// Decides what the settings leave open (settings.parallel is then no longer "auto"). Throws
// TrainFailure where they ask for what cannot be.
RunPlan plan_run(TrainSettings& settings, const RankFacts& facts);

}  // namespace lockstep
