// Which processors each rank may use: near its GPU, apart from the other ranks. hwloc knows the
// machine; it is loaded only when ranks are to be bound.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/arguments/launch_settings.hpp"
#include "launch/ranks/rank_environment.hpp"
#include "lockstep/result.hpp"

namespace lockstep {

// One logical processor and what it shares with others, each by its number.
struct Processor {
  int number = 0;
  int core = 0;
  int cache = 0;  // the last level that cores share
  int package = 0;
  int node = 0;  // of memory
};

struct RankBinding {
  std::vector<int> processors;
  int node = 0;
};

// Of this machine, as far as this process may use it.
Result<std::vector<Processor>> read_processors();

// The memory node next to each rank's GPU; nothing where there is none or the machine has one node.
std::vector<std::optional<int>> nodes_of_gpus(const Variables& around, int local_ranks);

std::vector<RankBinding> bind_ranks(const std::vector<Processor>& processors,
                                    const std::vector<std::optional<int>>& gpu_nodes, Binding how);

}  // namespace lockstep
