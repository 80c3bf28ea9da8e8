// Ranks that srun, mpirun or another MPI launcher gave to this very process, and machines that
// SLURM numbered.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/arguments/launch_settings.hpp"
#include "launch/ranks/rank_environment.hpp"

namespace lockstep {

// Fills in what the user left out: one rank a task, or one launcher a machine. What flags say
// stays.
Status adopt(const Variables& around, LaunchSettings& settings);

}  // namespace lockstep
