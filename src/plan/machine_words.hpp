// Machines as people write them: 8xH100-80GB, 2xA100-40GB, 2x24GB.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/machine.hpp"
#include "lockstep/result.hpp"
#include "model/setting.hpp"

namespace lockstep {

struct MachineWish {
  std::string gpus;  // "8xH100-80GB"; empty: this machine's
  int nodes = 1;
  std::string links;                     // nvlink, pcie; empty: by the GPU's kind
  std::optional<double> network_gbit_s;  // between nodes, for each node
  std::optional<int> cores;              // of a node
  std::optional<double> host_memory_bytes;
};

struct MachineAnswer {
  PlannedMachine machine;
  std::vector<std::string> notes;  // what was taken for granted
};

// `here`: this machine's GPUs, for where none are named; `cores`, `memory_bytes`: its own.
Result<MachineAnswer> machine_from(const MachineWish& wish, const std::vector<GpuInfo>& here,
                                   int cores, double memory_bytes);

// "13B", "350M", "1.5e9", "124_000_000": a count.
std::optional<double> parse_count(std::string_view text);

}  // namespace lockstep
