// How many samples an update takes, and in how many passes.
#pragma once

#include <cstdint>

#include "lockstep/result.hpp"
#include "training/model_shapes.hpp"
#include "training/train_settings.hpp"

namespace lockstep {

struct BatchPlan {
  std::int64_t batch_size = 0;    // samples a pass on one replica of the model
  std::int64_t accumulation = 1;  // passes an update
  std::int64_t replicas = 1;      // of the model over all ranks
  std::int64_t samples_per_update = 0;
  std::int64_t tokens_per_update = 0;
};

// effective batch = batch x replicas x accumulation. --global-batch and --tokens-per-update set the
// accumulation; what does not divide is an error with the two nearest values that do.
Result<BatchPlan> plan_batch(const TrainSettings& settings, const ModelShape& shape,
                             std::int64_t replicas);

}  // namespace lockstep
