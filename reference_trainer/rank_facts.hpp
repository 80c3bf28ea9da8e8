// Which rank this process is, as its launcher says it in environment variables.
#pragma once

#include <functional>
#include <string>

namespace lockstep {

struct RankFacts {
  int rank = 0;
  int world = 1;
  int local_rank = 0;
  int local_world = 1;
  // torchrun (lockstep launch sets the same), slurm, open mpi, pmi; empty: none
  std::string launcher;
  std::string master_address = "127.0.0.1";
  int master_port = 29500;
  std::string note;                 // for people: variables that were seen and not believed
  int attempt = 0;                  // restarts so far
  bool launcher_has_store = false;  // torchrun's agent listens at the port, not rank 0
};

using GetVariable = std::function<const char*(const char*)>;
// Throws TrainFailure where the variables contradict each other.
RankFacts rank_from_environment(const GetVariable& get);

}  // namespace lockstep
