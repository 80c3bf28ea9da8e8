// Processes of this machine that PyTorch's profiler can be asked in.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

struct TracedProcess {
  int pid = 0;
  std::optional<int> rank;
  std::optional<int> world_size;
  std::string job;  // the same for all ranks of one training, another for every other's
  std::filesystem::path socket_folder;  // as seen from here; empty: it asks at the abstract name
  bool asks_every_second = false;       // else every five
};

// Those started with KINETO_USE_DAEMON that have PyTorch loaded: the ranks, without their launcher
// and their loaders' workers. `wanted`: only these and what they started; empty: all.
std::vector<TracedProcess> find_traced_processes(const std::filesystem::path& proc,
                                                 const std::vector<int>& wanted);

}  // namespace lockstep
