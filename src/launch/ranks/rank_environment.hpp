// The environment of each rank: torchrun's names and values, see docs/launch.md for where and why
// they differ.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launch/arguments/launch_settings.hpp"
#include "launch/logs/log_folder.hpp"
#include "lockstep/result.hpp"

namespace lockstep {

using Variables = std::map<std::string, std::string>;

// A variable's value; empty where it is not set.
inline std::string value_of(const Variables& variables, const char* name) {
  const auto found = variables.find(name);
  return found == variables.end() ? std::string() : found->second;
}

// One attempt of the job, as this machine's ranks see it.
struct GroupPlace {
  int node = 0;        // GROUP_RANK
  int nodes = 1;       // GROUP_WORLD_SIZE
  int first_rank = 0;  // of this node's
  int local_ranks = 1;
  int world = 1;
  std::string master_address;
  int master_port = 0;
  std::string run_id;
  int attempt = 0;           // TORCHELASTIC_RESTART_COUNT
  bool agent_store = false;  // torch's rendezvous hosts the store: all ranks are its clients
  std::optional<int> adopted_local_rank;  // where another launcher gave one rank to this process
  std::optional<int> adopted_local_world;

  int local_number(int index) const { return adopted_local_rank.value_or(index); }
  int local_world() const { return adopted_local_world.value_or(local_ranks); }
};

// What is around the launcher, plus what torchrun adds for this rank. `threads`: OMP_NUM_THREADS
// where it is not set.
Result<Variables> rank_variables(const LaunchSettings& settings, const GroupPlace& place,
                                 int local_rank, const Variables& around, int threads,
                                 const RankFiles& files);

// This process's own variables.
Variables own_variables();
std::vector<std::string> as_entries(const Variables& variables);

// Without what torchrun, srun and MPI tell their ranks: whoever is started with the rest is a job
// of its own. What Slurm says of the job and its resources stays.
Variables without_launcher(Variables variables);

}  // namespace lockstep
