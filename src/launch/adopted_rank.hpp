// Ranks that srun, mpirun or another MPI launcher gave to this very process, and machines that SLURM numbered.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/launch_settings.hpp"
#include "launch/rank_environment.hpp"

namespace lockstep {

// Fills in what the user left out: one rank a task, or one launcher a machine. What flags say stays.
Status adopt(const Variables& around, LaunchSettings& settings);

// The first name of SLURM's list: "gpu[03-05,9],login" is gpu03.
std::string first_host(const std::string& node_list);

}  // namespace lockstep
