// What happened at one moment: a tick of all GPUs, a list of processes, a training step, or an event.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lockstep/sample.hpp"

namespace lockstep {

struct ProcessOnGpu {
  int index = 0;
  std::optional<std::uint64_t> memory_bytes;

  bool operator==(const ProcessOnGpu&) const = default;
};

// One process that holds a GPU, as the host shows it. nullopt: it could not be read.
struct ProcessSample {
  int pid = 0;
  std::vector<ProcessOnGpu> gpus;
  std::optional<std::vector<std::string>> command;  // secrets already replaced
  std::optional<int> rank;
  std::optional<int> local_rank;
  std::optional<int> world_size;
  std::optional<std::string> launcher;
  std::optional<double> cpu;  // cores in use: 1.0 is one core
  std::optional<char> state;
  std::optional<std::string> user;
  std::optional<int> parent_pid;
  std::optional<int> loader_workers;
  std::optional<std::uint64_t> read_bytes;   // cumulative
  std::optional<std::uint64_t> write_bytes;  // cumulative
  std::optional<std::map<std::string, std::string>> environment;  // the listed names and no others
  std::optional<std::vector<std::string>> libraries;

  bool operator==(const ProcessSample&) const = default;
};

// The parts of a training step. All but collective_hidden sum to the step's duration.
inline constexpr std::array<std::string_view, 13> kStepSpanNames = {
    "data_wait", "copy", "forward", "backward",   "collective_exposed", "collective_hidden", "optimizer",
    "sync",      "logging", "checkpoint", "evaluation", "gc",           "other"};

struct StepMark {
  int rank = 0;
  std::int64_t index = 0;
  double duration_ms = 0;
  std::array<std::optional<double>, kStepSpanNames.size()> spans_ms;

  bool operator==(const StepMark&) const = default;
};

struct Event {
  std::string kind;  // xid, lost, recovered, driver_gone, driver_back; in played recordings also hang, not_supported, slow_call, restart
  std::optional<int> gpu;
  std::string detail;

  bool operator==(const Event&) const = default;
};

using GpuTick = std::vector<GpuSample>;
using ProcessTick = std::vector<ProcessSample>;

struct Record {
  double t_ms = 0;  // since the start of the recording
  std::variant<GpuTick, ProcessTick, StepMark, Event> content;

  bool operator==(const Record&) const = default;
};

}  // namespace lockstep
