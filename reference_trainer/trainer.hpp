// A training run of one rank, from its settings to its last checkpoint.
#pragma once

#include <string>

#include "reference_trainer/rank_facts.hpp"
#include "training/train_settings.hpp"

namespace lockstep {

// Throws TrainFailure with a sentence and the next step.
void run_training(TrainSettings settings, const RankFacts& facts);

}  // namespace lockstep
