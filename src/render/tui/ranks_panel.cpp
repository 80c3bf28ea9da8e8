#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "render/tui/panels.hpp"
#include "render/tui/rank_rows.hpp"
#include "render/words/fleet_words.hpp"
#include "render/words/words.hpp"

namespace lockstep {
namespace {

// The letter is the main thread's: while others compute it sleeps, and the process does not.
std::string_view state_word(const ProcessSample& process) {
  if (!process.state) return "-";
  if (*process.state == 'S' && process.cpu.value_or(0) > 0.3) return "runs";
  switch (*process.state) {
    case 'R': return "runs";
    case 'S': return "sleeps";
    case 'D': return "disk";
    case 'T':
    case 't': return "halted";
    case 'Z': return "ended";
    default: return "-";
  }
}

std::string gpus_words(const ProcessSample& process) {
  std::vector<std::string> names;
  for (const ProcessOnGpu& use : process.gpus) names.push_back(std::to_string(use.index));
  return join(names, ",");
}

struct Columns {
  int rank = 14;
  int gpu = 7;
  int pid = 8;
  int user = 9;
  int memory = 10;
  int cpu = 6;
  int state = 7;
};

Columns columns_for(int width) {
  Columns columns;
  if (width < 72) {
    columns.user = 0;
    columns.state = 0;
    columns.memory = 0;
    columns.rank = 12;
    columns.gpu = 5;
  }
  if (width < 60) columns.cpu = 0;
  return columns;
}

Line process_line(const RankRow& row, const Columns& columns, Workers workers) {
  const ProcessSample& process = *row.process;
  Line line;
  const std::string name = process.rank ? rank_name(process) : std::string("process");
  line.add(row.branch, {Tone::faint, false, false});
  line.left(name, columns.rank - columns_of(row.branch));
  line.left(gpus_words(process), columns.gpu);
  line.right(std::to_string(process.pid), columns.pid).add(" ");
  if (columns.user > 0) line.left(printable(process.user.value_or("-")), columns.user);
  if (columns.memory > 0) {
    const auto memory = gpu_memory_of(process);
    line.right(memory ? format_bytes(*memory) : "-", columns.memory);
  }
  if (columns.cpu > 0)
    line.right(process.cpu ? fmt::format("{:.0f}%", *process.cpu * 100) : "-", columns.cpu);
  if (columns.state > 0)
    line.add(" ").left(
        state_word(process), columns.state - 1,
        {process.state == 'D' || process.state == 'T' ? Tone::waiting : Tone::plain, false, false});
  if (const int loaders = process.loader_workers.value_or(0);
      loaders > 0 && workers == Workers::folded)
    line.add(fmt::format(" +{} loader{}", loaders, loaders == 1 ? "" : "s"));
  return line.add(" ").add(short_command_of(process), {Tone::faint, false, false});
}

// The names of the columns, over them; the heading's own dashes take the first three places.
std::string header_words(const Columns& columns) {
  constexpr int kDashes = 3;
  Line line;
  line.left("ranks", columns.rank - kDashes)
      .left("GPU", columns.gpu)
      .right("pid", columns.pid)
      .add(" ");
  if (columns.user > 0) line.left("user", columns.user);
  if (columns.memory > 0) line.right("memory", columns.memory);
  if (columns.cpu > 0) line.right("CPU", columns.cpu);
  if (columns.state > 0) line.add(" ").left("state", columns.state - 1);
  return line.add(" command").text();
}

Line row_line(const RankRow& row, const Columns& columns, Workers workers) {
  switch (row.kind) {
    case RankRow::Kind::launcher: {
      Line line(printable(row.launcher), {Tone::accent, false, false});
      line.add(row.launcher_pid ? fmt::format(" {}", *row.launcher_pid) : std::string());
      return line.add(fmt::format(", {} rank{}", row.ranks, row.ranks == 1 ? "" : "s"),
                      {Tone::faint, false, false});
    }
    case RankRow::Kind::workers: {
      const int loaders = row.process->loader_workers.value_or(0);
      return Line(row.branch + fmt::format("{} loader worker{}", loaders, loaders == 1 ? "" : "s"),
                  {Tone::faint, false, false});
    }
    case RankRow::Kind::process: return process_line(row, columns, workers);
  }
  return Line();
}

}  // namespace

std::vector<Line> rank_lines(const Scene& scene) {
  const Band& band = scene.layout.of(Panel::ranks);
  std::vector<Line> lines;
  if (!band.shown()) return lines;
  const Workers workers = scene.layout.fold_workers ? Workers::folded : Workers::shown;
  const auto rows = rank_rows(scene.seen, scene.state, workers);
  const Columns columns = columns_for(scene.layout.columns);
  const int selected = selected_rank_row(rows, scene.state);
  const int visible = band.height - 1;
  const int first = first_shown(selected, static_cast<int>(rows.size()), visible);
  const std::string order =
      scene.state.order == RankOrder::tree
          ? ""
          : fmt::format("by {}", kRankOrderNames[static_cast<std::size_t>(scene.state.order)]);
  const std::string where =
      static_cast<int>(rows.size()) > visible
          ? fmt::format("{}-{} of {}", first + 1,
                        std::min(first + visible, static_cast<int>(rows.size())), rows.size())
          : std::string();
  lines.push_back(heading(
      scene, Panel::ranks, header_words(columns),
      join(std::vector<std::string>{order, where}, order.empty() || where.empty() ? "" : ", ")));
  if (rows.empty()) {
    const bool none = scene.seen.processes.empty();
    lines.emplace_back(!scene.seen.open ? ""
                       : none           ? "no process on a GPU"
                                        : "no process matches the filter",
                       Style{Tone::faint, false, false});
  }
  for (int i = first; i < std::min(first + visible, static_cast<int>(rows.size())); ++i) {
    Line line =
        row_line(rows[static_cast<std::size_t>(i)], columns, workers).fit(scene.layout.columns);
    if (scene.state.focus == Panel::ranks && i == selected) line.inverted();
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<Line> finding_lines(const Scene& scene) {
  const Band& band = scene.layout.of(Panel::findings);
  std::vector<Line> lines;
  if (!band.shown()) return lines;
  const auto rows = finding_rows(scene.seen, scene.state);
  const int count = static_cast<int>(rows.size());
  const int each = rows_a_finding(count, band);
  const int visible = (band.height - 1) / each;
  const int selected = std::clamp(scene.state.selected[static_cast<std::size_t>(Panel::findings)],
                                  0, std::max(0, count - 1));
  const int first = first_shown(selected, count, visible);
  lines.push_back(heading(scene, Panel::findings, "findings",
                          count > visible ? fmt::format("{}-{} of {}, Enter for more", first + 1,
                                                        std::min(first + visible, count), count)
                          : count > 0     ? "Enter: why and how"
                                          : ""));
  if (rows.empty())
    lines.emplace_back(scene.seen.report ? "none" : "none yet", Style{Tone::faint, false, false});
  for (int i = first; i < std::min(first + visible, count); ++i) {
    const Finding& finding = *rows[static_cast<std::size_t>(i)].finding;
    const bool suspicion = rows[static_cast<std::size_t>(i)].suspicion;
    const Tone tone = suspicion                                ? Tone::faint
                      : finding.severity == Severity::critical ? Tone::problem
                                                               : Tone::waiting;
    Line line;
    line.add(suspicion                                ? "? "
             : finding.severity == Severity::critical ? "! "
                                                      : "* ",
             {tone, true, false});
    line.add(fmt::format("{} {}", name_of(finding.code).id, name_of(finding.code).name),
             {tone, true, false});
    if (has_a_place(finding)) line.add("  " + where_words(finding), {Tone::plain, false, false});
    if (suspicion)
      line.add("  suspicion", {Tone::faint, false, false});
    else if (finding.lost_throughput > 0)
      line.add(fmt::format("  costs {:.0f}%", finding.lost_throughput * 100));
    const std::string fix = fix_words(finding);
    if (each == 1 && !fix.empty()) line.add("  fix: " + fix, {Tone::good, false, false});
    line.fit(scene.layout.columns);
    if (scene.state.focus == Panel::findings && i == selected) line.inverted();
    lines.push_back(std::move(line));
    if (each == 2)
      lines.push_back(Line("  fix: ", {Tone::faint, false, false})
                          .add(fix.empty() ? "see Enter" : fix, {Tone::good, false, false})
                          .fit(scene.layout.columns));
  }
  return lines;
}

}  // namespace lockstep
