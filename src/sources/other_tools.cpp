#include "sources/other_tools.hpp"

#include <algorithm>

#include "sources/csv/csv_log.hpp"
#include "sources/csv/text_blocks.hpp"
#include "sources/dcgm/dcgmi_columns.hpp"
#include "sources/gpustat/gpustat_log.hpp"
#include "sources/gpustat/gpustat_table.hpp"
#include "sources/gpustat/gputil_table.hpp"
#include "sources/log/step_lines.hpp"
#include "sources/log/training_log.hpp"
#include "sources/nvidia_smi/column_log.hpp"
#include "sources/nvidia_smi/query_log.hpp"
#include "sources/nvidia_smi/table_log.hpp"
#include "sources/prometheus/metrics_page.hpp"
#include "sources/rocm_smi/rocm_smi_list.hpp"
#include "sources/rocm_smi/rocm_smi_table.hpp"
#include "sources/wandb/wandb_events.hpp"

namespace lockstep {
namespace {

// One look at all GPUs, and behind it a log that somebody began then: the log says more.
std::optional<ParsedLog> log_behind_one_table(const std::vector<std::string>& lines,
                                              const ParsedLog& table) {
  const auto last_of_table = std::ranges::find_if(
      lines.rbegin(), lines.rend(),
      [](const auto& line) { return line.starts_with('|') || line.starts_with('+'); });
  auto behind = parse_csv_log({last_of_table.base(), lines.end()});
  if (!behind || behind->records.size() <= table.records.size()) return std::nullopt;
  behind->notes.push_back("a table of nvidia-smi stands before these rows: it is left out");
  return behind;
}

// What a look says that was taken before a run began is nothing of the run.
std::optional<ParsedLog> run_behind_a_look(const ParsedLog& readings, const ParsedLog& log,
                                           std::size_t lines) {
  constexpr std::ptrdiff_t kALook = 2;
  constexpr std::size_t kAPaste = 400;  // lines: a look that was put beside an error belongs to it
  const auto looks = std::ranges::count_if(readings.records, [](const Record& record) {
    return std::holds_alternative<GpuTick>(record.content);
  });
  const bool has_steps = std::ranges::any_of(log.records, [](const Record& record) {
    return std::holds_alternative<StepMark>(record.content);
  });
  if (looks > kALook || (!has_steps && lines <= kAPaste)) return std::nullopt;
  ParsedLog run = log;
  run.notes.push_back(
      "a look at the GPUs stands beside the run's own lines: it says little of the run, and is "
      "left "
      "out");
  return run;
}

// A run's error is often pasted together with a look at the GPUs.
void add_messages(const ParsedLog& messages, ParsedLog& readings) {
  const double at_ms = readings.records.empty() ? 0 : readings.records.back().t_ms;
  for (const Record& record : messages.records)
    if (std::holds_alternative<Event>(record.content))
      readings.records.push_back({at_ms, record.content});
}

// What a run prints that goes well.
bool is_progress(const std::vector<std::string>& lines) {
  constexpr std::size_t kAFew = 3;
  std::size_t found = 0;
  for (const std::string& line : lines) {
    if (tells_progress(line)) ++found;
    // bars that a terminal wrote one over the other stand in one line
    auto bar = line.find("%|");
    while (bar != std::string::npos && (bar = line.find("%|", bar + 1)) != std::string::npos)
      ++found;
  }
  return found >= kAFew;
}

}  // namespace

// The stricter forms come first: a training log may quote anything.
std::optional<ParsedLog> parse_other_tools_readings(const std::vector<std::string>& lines,
                                                    const std::string& text) {
  if (auto log = parse_nvidia_smi_tables(lines)) {
    // gpustat and nvidia-smi in one text: the one that shows more GPUs is the one that is whole.
    if (auto other = parse_gpustat_table(lines);
        other && other->machine.gpus.size() > log->machine.gpus.size()) {
      other->notes.push_back("a table of nvidia-smi with fewer GPUs beside gpustat's is left out");
      return other;
    }
    if (auto behind = log_behind_one_table(lines, *log)) return behind;
    return log;
  }
  if (auto log = parse_nvidia_smi_query(lines)) return log;
  if (auto log = parse_nvidia_smi_columns(lines)) return log;
  if (auto log = parse_dcgmi_columns(lines)) return log;
  if (auto log = parse_wandb_events(lines)) return log;
  if (auto log = parse_metrics_page(lines)) return log;
  if (auto log = parse_gpustat_log(text)) return log;
  if (auto log = parse_gpustat_table(lines)) return log;
  if (auto log = parse_gputil_table(lines)) return log;
  if (auto log = parse_rocm_smi_table(lines)) return log;
  if (auto log = parse_rocm_smi_list(lines)) return log;
  if (auto log = parse_csv_log(lines)) return log;
  return parse_text_blocks(lines);
}

std::optional<ParsedLog> parse_other_tools_log(const std::vector<std::string>& lines,
                                               const std::string& text) {
  constexpr std::size_t kMostLinesWithReadings =
      20'000;  // a paste; a log of hours holds rows alone
  auto log = parse_other_tools_readings(lines, text);
  if (!log)
    log = parse_training_log(lines);
  else if (lines.size() <= kMostLinesWithReadings)
    if (const auto run = parse_training_log(lines)) {
      if (auto alone = run_behind_a_look(*log, *run, lines.size())) return alone;
      add_messages(*run, *log);
    }
  if (!log && !names_no_gpu(lines) && is_progress(lines)) return log_without_messages();
  return log;
}

}  // namespace lockstep
