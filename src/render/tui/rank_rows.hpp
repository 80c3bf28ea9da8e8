// The processes on the GPUs as people think of them: launcher, its ranks, their loader workers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "monitor/monitored.hpp"
#include "render/tui/monitor_state.hpp"

namespace lockstep {

struct RankRow {
  enum class Kind : std::uint8_t { launcher, process, workers } kind = Kind::process;
  std::string branch;                      // the lines of the tree before it
  const ProcessSample* process = nullptr;  // of a process, and of the workers' process
  std::string launcher;
  std::optional<int> launcher_pid;
  int ranks = 0;  // of a launcher
};

enum class Workers : std::uint8_t { shown, folded };

// In the order that is wanted, those that match the filter. Points into `seen`.
std::vector<RankRow> rank_rows(const Monitored& seen, const MonitorState& state, Workers workers);

// The row of the selected process, else the nearest there is; 0 when there is none.
int selected_rank_row(const std::vector<RankRow>& rows, const MonitorState& state);

// "rank 0 of 2", "pid 4242".
std::string rank_name(const ProcessSample& process);
std::string command_line_of(const ProcessSample& process);
// The same with the program without its folder: where there is little room, the script is what
// people look for.
std::string short_command_of(const ProcessSample& process);
std::optional<double> gpu_memory_of(const ProcessSample& process);

// The findings and suspicions that match the filter, findings first.
struct FindingRow {
  const Finding* finding = nullptr;
  bool suspicion = false;
};
std::vector<FindingRow> finding_rows(const Monitored& seen, const MonitorState& state);

// "GPU 1: xid 79".
std::string event_words(const Event& event);

// What to type, where the fix is a command; else what to do.
std::string fix_words(const Finding& finding);

}  // namespace lockstep
