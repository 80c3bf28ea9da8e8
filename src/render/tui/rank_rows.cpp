#include "render/tui/rank_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <tuple>

#include "base/text.hpp"
#include "render/words/words.hpp"

namespace lockstep {
namespace {

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  return text;
}

bool matches(const std::string& filter, const std::string& text) {
  return filter.empty() || lower(text).find(lower(filter)) != std::string::npos;
}

std::string words_of(const ProcessSample& process) {
  std::string gpus;
  for (const ProcessOnGpu& use : process.gpus) gpus += fmt::format(" GPU {}", use.index);
  return fmt::format("{} pid {} {} {} {}{}", rank_name(process), process.pid,
                     process.user.value_or(""), process.launcher.value_or(""),
                     command_line_of(process), gpus);
}

// Something that starts ranks; python and a shell merely start a process.
bool starts_ranks(const ProcessSample& process) {
  return process.launcher && !process.launcher->empty() && *process.launcher != "python" &&
         *process.launcher != "shell" && *process.launcher != "none";
}

int first_gpu(const ProcessSample& process) {
  return process.gpus.empty() ? 1 << 20 : process.gpus.front().index;
}

// Least first, but for the quantities of which the most is of interest.
bool goes_before(const ProcessSample& a, const ProcessSample& b, RankOrder order) {
  const auto by_rank = [](const ProcessSample& process) {
    return std::tuple(process.rank.value_or(1 << 20), first_gpu(process), process.pid);
  };
  switch (order) {
    case RankOrder::tree:
    case RankOrder::rank: return by_rank(a) < by_rank(b);
    case RankOrder::gpu: return std::tuple(first_gpu(a), a.pid) < std::tuple(first_gpu(b), b.pid);
    case RankOrder::user:
      return std::tuple(a.user.value_or("~"), by_rank(a)) <
             std::tuple(b.user.value_or("~"), by_rank(b));
    case RankOrder::pid: return a.pid < b.pid;
    case RankOrder::memory:
      return std::tuple(-gpu_memory_of(a).value_or(0), a.pid) <
             std::tuple(-gpu_memory_of(b).value_or(0), b.pid);
    case RankOrder::cpu:
      return std::tuple(-a.cpu.value_or(0), a.pid) < std::tuple(-b.cpu.value_or(0), b.pid);
  }
  return a.pid < b.pid;
}

void add_with_workers(std::vector<RankRow>& rows, const ProcessSample& process,
                      const std::string& branch, const std::string& below, Workers workers) {
  rows.push_back({RankRow::Kind::process, branch, &process, {}, {}, 0});
  if (workers == Workers::shown && process.loader_workers.value_or(0) > 0)
    rows.push_back({RankRow::Kind::workers, below + "\u2514 ", &process, {}, {}, 0});
}

}  // namespace

std::string rank_name(const ProcessSample& process) {
  if (!process.rank) return fmt::format("pid {}", process.pid);
  return process.world_size ? fmt::format("rank {} of {}", *process.rank, *process.world_size)
                            : fmt::format("rank {}", *process.rank);
}

std::string command_line_of(const ProcessSample& process) {
  return process.command ? command_words(*process.command) : std::string("(not readable)");
}

std::string short_command_of(const ProcessSample& process) {
  if (!process.command || process.command->empty()) return command_line_of(process);
  std::vector<std::string> words = *process.command;
  words.front() = words.front().substr(words.front().rfind('/') + 1);
  return command_words(words);
}

std::optional<double> gpu_memory_of(const ProcessSample& process) {
  std::optional<double> bytes;
  for (const ProcessOnGpu& use : process.gpus)
    if (use.memory_bytes) bytes = bytes.value_or(0) + static_cast<double>(*use.memory_bytes);
  return bytes;
}

std::vector<RankRow> rank_rows(const Monitored& seen, const MonitorState& state, Workers workers) {
  std::vector<const ProcessSample*> wanted;
  for (const ProcessSample& process : seen.processes)
    if (state.filter.empty() || state.filter_of != Panel::ranks ||
        matches(state.filter, words_of(process)))
      wanted.push_back(&process);
  std::ranges::sort(wanted, [&](const ProcessSample* a, const ProcessSample* b) {
    return goes_before(*a, *b, state.order);
  });

  std::vector<RankRow> rows;
  if (state.order != RankOrder::tree) {
    for (const ProcessSample* process : wanted)
      rows.push_back({RankRow::Kind::process, "", process, {}, {}, 0});
    return rows;
  }
  // Ranks of one launcher stand together, where the first of them stands.
  using Launcher = std::pair<std::string, int>;
  const auto launcher_of = [](const ProcessSample& process) {
    return Launcher(*process.launcher, process.parent_pid.value_or(0));
  };
  std::map<Launcher, std::vector<const ProcessSample*>> started;
  for (const ProcessSample* process : wanted)
    if (starts_ranks(*process)) started[launcher_of(*process)].push_back(process);
  for (const ProcessSample* process : wanted) {
    if (!starts_ranks(*process)) {
      add_with_workers(rows, *process, "", "", workers);
      continue;
    }
    auto& ranks = started[launcher_of(*process)];
    if (ranks.empty()) continue;  // shown already
    rows.push_back({RankRow::Kind::launcher, "", nullptr, *process->launcher, process->parent_pid,
                    static_cast<int>(ranks.size())});
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const bool last = i + 1 == ranks.size();
      add_with_workers(rows, *ranks[i], last ? "\u2514 " : "\u251C ", last ? "  " : "\u2502 ",
                       workers);
    }
    ranks.clear();
  }
  return rows;
}

int selected_rank_row(const std::vector<RankRow>& rows, const MonitorState& state) {
  if (state.rank_pid)
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (rows[i].kind == RankRow::Kind::process && rows[i].process->pid == *state.rank_pid)
        return static_cast<int>(i);
  return std::clamp(state.selected[static_cast<std::size_t>(Panel::ranks)], 0,
                    std::max(0, static_cast<int>(rows.size()) - 1));
}

std::vector<FindingRow> finding_rows(const Monitored& seen, const MonitorState& state) {
  std::vector<FindingRow> rows;
  if (!seen.report) return rows;
  const auto add = [&](const std::vector<Finding>& findings, bool suspicion) {
    for (const Finding& finding : findings)
      if (state.filter.empty() || state.filter_of != Panel::findings ||
          matches(state.filter,
                  fmt::format("{} {} {} {}", name_of(finding.code).id, name_of(finding.code).name,
                              fix_words(finding), gpu_list(finding.gpus))))
        rows.push_back({&finding, suspicion});
  };
  add(seen.report->findings, false);
  add(seen.report->suspicions, true);
  return rows;
}

std::string event_words(const Event& event) {
  const std::string what = event.kind == "driver_gone"   ? "the driver is gone"
                           : event.kind == "driver_back" ? "the driver is back"
                                                         : printable(event.kind.text());
  return fmt::format("{}{}{}{}", event.gpu ? fmt::format("GPU {}: ", *event.gpu) : std::string(),
                     what,
                     event.detail.empty()  ? ""
                     : event.kind == "xid" ? " "
                                           : ": ",
                     printable(event.detail));
}

std::string fix_words(const Finding& finding) {
  for (const Fix& fix : finding.fixes)
    if (!fix.command.empty()) return command_words(fix.command);
  return finding.fixes.empty() ? std::string() : printable(finding.fixes.front().description);
}

}  // namespace lockstep
