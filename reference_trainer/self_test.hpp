// Checks that the ranks understand each other, for `lockstep doctor` and for tests.
#pragma once

#include <string>

#include "reference_trainer/rank_facts.hpp"
#include "training/train_settings.hpp"

namespace lockstep {

// The process's exit code; 0: all is well. `name`: collectives, gloo and nccl (values and speed),
// ddp (collectives, shards of the data, equal weights after a step).
int run_self_test(const std::string& name, const RankFacts& facts, const TrainSettings& settings);

}  // namespace lockstep
