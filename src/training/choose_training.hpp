// Settings that fit the machine: what the user left open is chosen, and each choice says why.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "lockstep/result.hpp"
#include "training/train_settings.hpp"

namespace lockstep {

// What training may use.
struct TrainMachine {
  int gpus = 0;                    // 0: virtual ones, a core each
  std::uint64_t memory_bytes = 0;  // of the smallest GPU; of the machine where there is none
  std::string gpu_name;
  int cores = 1;
};

struct Choice {
  std::string setting;
  std::string value;
  std::string why;
};

struct TrainingChoice {
  TrainSettings settings;
  int ranks = 1;  // processes to start
  std::vector<Choice> choices;
};

// `given`: settings that the user made; they stay. An error where nothing that the trainer can run
// would fit.
Result<TrainingChoice> choose_training(const TrainSettings& settings,
                                       const std::set<std::string>& given,
                                       const TrainMachine& machine);

}  // namespace lockstep
