// Where lockstep-train is, and what it may use here.
#pragma once

#include <string>
#include <vector>

#include "lockstep/result.hpp"
#include "training/choose_training.hpp"

namespace lockstep {

// Beside lockstep. An error where this build has none.
Result<std::string> trainer_program();

// GPUs that the trainer can use (none without a driver or a trainer built with CUDA), memory,
// cores.
TrainMachine train_machine();

// As a user would type it: our own programs by their names.
std::vector<std::string> as_typed(std::vector<std::string> command);

}  // namespace lockstep
