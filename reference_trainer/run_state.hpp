// Where a run stands, and its way into a checkpoint and back.
#pragma once

#include <cstdint>

#include "reference_trainer/checkpoint.hpp"
#include "reference_trainer/distributed.hpp"
#include "reference_trainer/model/model.hpp"
#include "reference_trainer/optimizer.hpp"
#include "reference_trainer/precision.hpp"
#include "reference_trainer/run_plan.hpp"

namespace lockstep {

struct Position {
  std::int64_t update = 0;  // finished so far
  std::int64_t epoch = 0;
  std::int64_t samples = 0;  // of this epoch, taken by all ranks together
};

// All that must be as it was for a run to go on as if nothing had happened.
struct RunState {
  Model& model;
  Optimizer& optimizer;
  LossScaler& scaler;
  const RunPlan& plan;
  const TrainSettings& settings;
  std::int64_t samples;  // of the data
  at::Device device;     // whose random numbers are drawn
};

// Called on all ranks (each has random numbers of its own); rank 0 gets the checkpoint, the others
// an empty one.
Checkpoint checkpoint_of(const RunState& state, const Position& position, const Distributed& ranks);

// Rank 0 reads; the others hear of it. Nothing to resume from: the beginning. Throws TrainFailure
// where the checkpoint cannot be used, on all ranks.
struct Resumed {
  Position position;
  std::string words;  // for people; empty: nothing was resumed
};
Resumed resume(const RunState& state, const Distributed& ranks);

}  // namespace lockstep
