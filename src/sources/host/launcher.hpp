// Who started a process as a rank, and which rank it is.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

using Command = std::vector<std::string>;
using Environment = std::map<std::string, std::string>;

// The launcher that this command line is: torchrun, lockstep, accelerate, deepspeed, srun, mpirun.
std::optional<std::string> launcher_named_by(const Command& command);

// A child made by Python's multiprocessing with a fresh interpreter (spawn, forkserver): it shows
// no script.
bool is_multiprocessing_child(const Command& command);
// Python's own helpers, which are neither ranks nor loader workers.
bool is_multiprocessing_helper(const Command& command);
bool is_forkserver(const Command& command);
bool is_python(const Command& command);

struct RankNumbers {
  std::optional<int> rank;
  std::optional<int> local_rank;
  std::optional<int> world_size;
};
// Ranks as torch's variables say, else Open MPI's, PMI's or SLURM's.
RankNumbers ranks_in(const Environment& environment);

// The launcher by what the environment shows, for processes whose ancestors do not tell.
std::optional<std::string> launcher_hinted_by(const Environment& environment);

}  // namespace lockstep
