#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/text.hpp"
#include "render/tui/panels.hpp"
#include "render/tui/rank_rows.hpp"
#include "render/tui/readings.hpp"
#include "render/tui/step_parts.hpp"
#include "render/words/fleet_words.hpp"
#include "render/words/words.hpp"

namespace lockstep {
namespace {

constexpr Style kFaint{Tone::faint, false, false};
constexpr Style kStrong{Tone::accent, true, false};

// Rows of "name   value", wrapped under the value.
class Rows {
 public:
  explicit Rows(int columns) : columns_(columns) {}

  void add(std::string_view name, std::string_view value, Style style = {}) {
    constexpr int kName = 20;
    const auto parts = wrapped(value, std::max(10, columns_ - kName));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      Line line;
      line.left(i == 0 ? name : "", kName, kFaint).add(parts[i], style);
      lines_.push_back(std::move(line));
    }
  }
  void title(std::string_view words) {
    if (!lines_.empty()) lines_.emplace_back();
    lines_.emplace_back(std::string(words), kStrong);
  }
  void text(std::string_view words, Style style = {}) {
    for (const std::string& part : wrapped(words, columns_)) lines_.emplace_back(part, style);
  }
  // Text that was broken for another width: the lines of a paragraph flow together, those of lists,
  // tables and code stay.
  void page(std::string_view words) {
    std::string paragraph;
    bool code = false;
    const auto flush = [&] {
      if (!paragraph.empty()) text(std::exchange(paragraph, {}));
    };
    for (const std::string_view line : split(words, '\n')) {
      if (line.starts_with("```")) code = !code;
      const bool starts_anew = line.empty() || code || line.starts_with("#") ||
                               line.starts_with("|") || line.starts_with("- ") ||
                               line.starts_with("* ") || line.starts_with("    ") ||
                               line.starts_with("```");
      if (starts_anew) flush();
      if (line.empty())
        lines_.emplace_back();
      else if (line.starts_with("```"))
        continue;
      else if (code || line.starts_with("#") || line.starts_with("|"))
        text(line, code ? Style{Tone::good, false, false} : Style{});
      else
        paragraph += (paragraph.empty() ? "" : " ") + std::string(trim(line));
    }
    flush();
  }
  std::vector<Line> take() { return std::move(lines_); }

 private:
  int columns_;
  std::vector<Line> lines_;
};

// A reading in words: a failed one is never shown as 0.
template <class T, class Format>
std::string reading_words(const Reading<T>& reading, bool old, Format format) {
  switch (reading.state()) {
    case ReadingState::value: return format(*reading.value()) + (old ? " (from before)" : "");
    case ReadingState::stale: return format(*reading.last_value()) + " (from before)";
    case ReadingState::error: return "the driver gives an error";
    case ReadingState::not_supported: return "not available";
    case ReadingState::not_asked: return "not read yet";
  }
  return "-";
}

int text_columns(const Scene& scene) { return std::max(20, scene.layout.columns - 4); }

Window gpu_detail(const Scene& scene) {
  const Monitored& seen = scene.seen;
  if (seen.gpus.empty()) return {"GPU", {Line("no GPU")}, 0, true};
  const GpuNow& gpu = seen.gpus[static_cast<std::size_t>(
      std::clamp(scene.state.selected[0], 0, static_cast<int>(seen.gpus.size()) - 1))];
  const Readings now = readings_now(gpu, seen);
  const auto percent = [](double fraction) { return fmt::format("{:.0f} %", fraction * 100); };
  Rows rows(text_columns(scene));
  rows.add("name", printable(gpu.info.name.value_or("unknown")));
  if (gpu.info.host) rows.add("host", printable(*gpu.info.host));
  if (gpu.info.job) rows.add("job", printable(*gpu.info.job));
  if (gpu.info.uuid) rows.add("uuid", printable(*gpu.info.uuid));
  if (gpu.info.mig)
    rows.add("slice",
             fmt::format("MIG {} of GPU {}", gpu.info.mig->instance, gpu.info.mig->parent));
  rows.add("doing", now.state == GpuState::unknown ? "not known yet" : name_of(now.state).word,
           {tone_of(name_of(now.state).concern), false, false});
  rows.title("now");
  const GpuSample& latest = gpu.latest;
  rows.add("busy", reading_words(latest.busy, now.old, percent));
  rows.add("SM", reading_words(latest.sm, now.old, percent));
  rows.add("tensor cores", reading_words(latest.tensor, now.old, percent));
  rows.add("memory traffic", reading_words(latest.dram, now.old, percent));
  rows.add("power", reading_words(latest.power_mw, now.old,
                                  [&](double) { return power_of_limit(now, gpu.info); }));
  rows.add("memory", reading_words(latest.memory_used_bytes, now.old,
                                   [&](std::uint64_t) { return memory_of_total(now, gpu.info); }));
  rows.add("temperature", reading_words(latest.temperature_c, now.old, [](double celsius) {
             return fmt::format("{:.0f} C", celsius);
           }));
  rows.add("SM clock", reading_words(latest.sm_clock_mhz, now.old,
                                     [](double mhz) { return fmt::format("{:.0f} MHz", mhz); }));
  rows.add("clock limited by", reading_words(latest.limits, now.old, [](const ClockLimits& limits) {
             return limits_of(limits);
           }));
  rows.add("limited so far",
           gpu.limited_ms > 0 ? fmt::format("{} by heat or power brake", ago(gpu.limited_ms))
                              : "no time by heat or power brake",
           {gpu.limited_ms > 0 ? Tone::problem : Tone::plain, false, false});
  rows.add("PCIe", now.pcie_bytes_s ? format_bytes(*now.pcie_bytes_s) + "/s" : "not read");
  rows.add("NVLink", now.nvlink_bytes_s ? format_bytes(*now.nvlink_bytes_s) + "/s" : "not read");
  rows.title("processes");
  bool any = false;
  for (const ProcessSample& process : seen.processes)
    for (const ProcessOnGpu& use : process.gpus)
      if (use.index == gpu.info.index) {
        any = true;
        rows.add(rank_name(process),
                 fmt::format(
                     "{} {}",
                     use.memory_bytes ? format_bytes(static_cast<double>(*use.memory_bytes)) : "-",
                     command_line_of(process)));
      }
  if (!any) rows.text("none", kFaint);
  rows.title("events");
  any = false;
  for (auto entry = seen.events.rbegin(); entry != seen.events.rend(); ++entry)
    if (entry->event.gpu == gpu.info.index) {
      any = true;
      rows.add(time_code(entry->t_ms - seen.origin_ms()),
               fmt::format("{} {}", printable(entry->event.kind.text()),
                           printable(entry->event.detail)));
    }
  if (!any) rows.text("none since the watch began", kFaint);
  if (seen.report && !seen.report->not_measured.empty()) {
    rows.title("not measured");
    for (const NotMeasured& entry : seen.report->not_measured)
      rows.add(printable(entry.signal), printable(entry.reason));
  }
  return {gpu_label(gpu.info), rows.take(), 0, true};
}

Window rank_detail(const Scene& scene) {
  const auto list = rank_rows(scene.seen, scene.state,
                              scene.layout.fold_workers ? Workers::folded : Workers::shown);
  if (list.empty()) return {"rank", {Line("it has ended")}, 0, true};
  const RankRow& row = list[static_cast<std::size_t>(selected_rank_row(list, scene.state))];
  Rows rows(text_columns(scene));
  if (row.kind == RankRow::Kind::launcher) {
    rows.add("launcher", printable(row.launcher));
    rows.add("pid", row.launcher_pid ? std::to_string(*row.launcher_pid) : "not known");
    rows.add("ranks here", std::to_string(row.ranks));
    return {"launcher", rows.take(), 0, true};
  }
  const ProcessSample& process = *row.process;
  const auto number = [](const std::optional<int>& value) {
    return value ? std::to_string(*value) : std::string("not set");
  };
  rows.add("command", command_line_of(process));
  rows.add("pid", std::to_string(process.pid));
  rows.add("parent", number(process.parent_pid));
  rows.add("user", printable(process.user.value_or("not readable")));
  rows.add("launcher", printable(process.launcher.value_or("none")));
  rows.add("rank", fmt::format("{}, local {}, world size {}", number(process.rank),
                               number(process.local_rank), number(process.world_size)));
  rows.add("CPU",
           process.cpu ? fmt::format("{:.0f} % of a core", *process.cpu * 100) : "not read yet");
  rows.add("state", process.state && std::isalpha(static_cast<unsigned char>(*process.state)) != 0
                        ? std::string(1, *process.state)
                        : "not readable");
  rows.add("loader workers", number(process.loader_workers));
  rows.add(
      "read, written",
      fmt::format(
          "{}, {}",
          process.read_bytes ? format_bytes(static_cast<double>(*process.read_bytes)) : "-",
          process.write_bytes ? format_bytes(static_cast<double>(*process.write_bytes)) : "-"));
  for (const ProcessOnGpu& use : process.gpus)
    rows.add(fmt::format("on GPU {}", use.index),
             use.memory_bytes ? format_bytes(static_cast<double>(*use.memory_bytes))
                              : "memory not told by the driver");
  if (process.libraries && !process.libraries->empty())
    rows.add("libraries", printable(join(*process.libraries, ", ")));
  if (process.environment && !process.environment->empty()) {
    rows.title("environment (only names that matter to training are read)");
    for (const auto& [name, value] : *process.environment)
      rows.add(printable(name), printable(value));
  }
  return {rank_name(process), rows.take(), 0, true};
}

Window finding_detail(const Scene& scene) {
  const auto list = finding_rows(scene.seen, scene.state);
  if (list.empty()) return {"finding", {Line("it is no longer there")}, 0, true};
  const int selected = std::clamp(scene.state.selected[static_cast<std::size_t>(Panel::findings)],
                                  0, static_cast<int>(list.size()) - 1);
  const Finding& finding = *list[static_cast<std::size_t>(selected)].finding;
  const bool suspicion = list[static_cast<std::size_t>(selected)].suspicion;
  Rows rows(text_columns(scene));
  rows.add("confidence",
           fmt::format("{:.0f} %, {}{}", finding.confidence * 100, severity_word(finding.severity),
                       suspicion ? ": a suspicion, not a finding" : ""));
  rows.add("cost", cost_sentence(finding));
  if (has_a_place(finding)) rows.add("where", where_words(finding));
  rows.title("evidence");
  for (const Evidence& evidence : finding.evidence) rows.text("- " + evidence_words(evidence));
  rows.title("fix (y copies it)");
  for (const Fix& fix : finding.fixes) {
    rows.text("- " + printable(fix.description));
    if (!fix.command.empty())
      rows.text("  " + command_words(fix.command), {Tone::good, true, false});
  }
  const std::string_view page =
      scene.explain != nullptr ? scene.explain(finding.code) : std::string_view();
  if (!page.empty()) {
    rows.title("lockstep explain " + std::string(name_of(finding.code).id));
    rows.page(page);
  }
  return {fmt::format("{} {}", name_of(finding.code).id, name_of(finding.code).name), rows.take(),
          0, true};
}

Window step_detail(const Scene& scene) {
  const double until = looked_at_ms(scene.seen, scene.state);
  const auto ranks = step_parts(scene.seen, until);
  const int selected = std::clamp(scene.state.selected[static_cast<std::size_t>(Panel::steps)], 0,
                                  std::max(0, static_cast<int>(ranks.size()) - 1));
  Rows rows(text_columns(scene));
  int here = 0;
  for (const auto& [rank, parts] : ranks) {
    if (here++ != selected) continue;
    rows.add("rank", std::to_string(rank));
    rows.add("steps looked at",
             fmt::format("{}, the last is number {}", parts.steps, parts.last_index));
    rows.add("a step takes", fmt::format("{:.2f} ms", parts.duration_ms));
    rows.title("of which");
    for (std::size_t i = 0; i < kStepLetters.size(); ++i) {
      if (parts.share[i] <= 0) continue;
      rows.add(
          kStepLetters[i].words,
          fmt::format("{:8.2f} ms  {:5.1f} %{}", parts.share[i] * parts.duration_ms,
                      parts.share[i] * 100,
                      kStepLetters[i].counts ? "" : "  (behind the backward pass: costs nothing)"),
          {kStepLetters[i].concern == Concern::waiting && parts.share[i] > 0.1 ? Tone::waiting
                                                                               : Tone::plain,
           false, false});
    }
  }
  return {"steps", rows.take(), 0, true};
}

}  // namespace

Window detail_window(const Scene& scene) {
  const auto& view = std::get<DetailView>(scene.state.overlay);
  Window window;
  switch (view.of) {
    case Panel::gpus: window = gpu_detail(scene); break;
    case Panel::steps: window = step_detail(scene); break;
    case Panel::ranks: window = rank_detail(scene); break;
    case Panel::findings: window = finding_detail(scene); break;
  }
  window.scroll = view.scroll;
  return window;
}

}  // namespace lockstep
