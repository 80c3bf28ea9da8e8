// A training run as the planner sees it, and the planner's answer as settings of the trainer.
#pragma once

#include <set>
#include <string>

#include "plan/search.hpp"
#include "training/choose_training.hpp"
#include "training/model_shapes.hpp"

namespace lockstep {

// What is asked of the planner: what the user gave is fixed, the rest is open. For nets of the GPT
// kind.
PlanRequest training_request(const TrainSettings& settings, const std::set<std::string>& given,
                             const ModelShape& shape, const TrainMachine& machine, int devices);

// The trainer's word for a strategy: "ddp", "naive", "hybrid", "single".
std::string parallel_of(SplitStrategy strategy);

}  // namespace lockstep
