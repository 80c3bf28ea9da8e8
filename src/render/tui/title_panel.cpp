#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "render/tui/panels.hpp"
#include "render/words/words.hpp"

namespace lockstep {
namespace {

// "2 x NVIDIA H200", "8 virtual GPUs".
std::string machine_words(const Monitored& seen) {
  if (!seen.open) return {};
  std::map<std::string, int> kinds;
  bool any_virtual = seen.kind == SourceKind::virtual_gpus;
  for (const GpuNow& gpu : seen.gpus) {
    ++kinds[gpu.info.name.value_or("GPU")];
    any_virtual = any_virtual || is_virtual(gpu.info);
  }
  const std::size_t count = seen.gpus.size();
  if (any_virtual) return fmt::format("{} virtual GPU{}", count, count == 1 ? "" : "s");
  if (kinds.size() != 1) return fmt::format("{} GPU{}", count, count == 1 ? "" : "s");
  return fmt::format("{} \u00D7 {}", count, printable(kinds.begin()->first));
}

// Live, paused, or where a file is.
void add_place(Line& line, const Scene& scene) {
  const Monitored& seen = scene.seen;
  if (seen.recording) line.add(" \u25CF REC ", {Tone::problem, true, false});
  const double behind = seen.now_ms() - looked_at_ms(seen, scene.state);
  if (seen.playback && scene.state.right_ms)
    line.add(fmt::format(" looking {} back ", ago(std::max(0.0, behind))),
             {Tone::waiting, true, false});
  if (!seen.playback) {
    if (seen.silence || seen.driver_gone) {
      line.add(
          seen.silence
              ? fmt::format(
                    " no reading for {} s ",
                    std::chrono::duration_cast<std::chrono::seconds>(seen.silence->since).count())
              : std::string(" no reading "),
          {Tone::problem, true, false});
      return;
    }
    if (scene.state.right_ms)
      line.add(fmt::format(" {} {} ago ", scene.state.paused ? "\u2016 paused" : "history",
                           ago(std::max(0.0, behind))),
               {Tone::waiting, true, false});
    else
      line.add(" \u25B6 live ", {Tone::good, false, false});
    return;
  }
  const Playback& play = *seen.playback;
  const std::string end = play.end_ms ? time_code(*play.end_ms - play.begin_ms) : "?";
  const char* const how = play.seeking  ? "seeking"
                          : play.at_end ? "end"
                          : play.paused ? "\u2016 paused"
                                        : "\u25B6 replay";
  line.add(fmt::format(" {} {}/{} {:g}x{} ", how, time_code(play.position_ms - play.begin_ms), end,
                       play.speed, play.loops ? " loop" : ""),
           {Tone::accent, true, false});
}

bool is_healthy(Pattern pattern) {
  return pattern == Pattern::in_step || pattern == Pattern::single_gpu ||
         pattern == Pattern::independent || pattern == Pattern::pipeline;
}

// A healthy pattern is not all: in step and slow is a problem too.
Concern concern_of(const std::vector<Finding>& findings) {
  if (findings.empty()) return Concern::good;
  return std::ranges::any_of(
             findings,
             [](const Finding& finding) { return finding.severity == Severity::critical; })
             ? Concern::problem
             : Concern::waiting;
}

// In step, but late, hot or stuck: the pattern is not the news then.
std::string but_words(const Finding& worst) {
  std::string words = fmt::format(", but {} {}", name_of(worst.code).id, name_of(worst.code).name);
  if (worst.lost_throughput >= 0.01)
    words += fmt::format(" costs {:.0f}%", worst.lost_throughput * 100);
  return words;
}

// Each name once, with how often it stands there.
std::string names_of(const std::vector<Finding>& findings) {
  std::vector<std::pair<FindingCode, int>> counts;
  for (const Finding& finding : findings) {
    const auto known = std::ranges::find_if(
        counts, [&](const auto& entry) { return entry.first == finding.code; });
    if (known == counts.end())
      counts.emplace_back(finding.code, 1);
    else
      ++known->second;
  }
  std::vector<std::string> names;
  for (const auto& [code, count] : counts)
    names.push_back(fmt::format("{} {}{}", name_of(code).id, name_of(code).name,
                                count > 1 ? fmt::format(" ({} times)", count) : std::string()));
  return join(names, ", ");
}

// What stands above the lanes when there is something worse to say than a verdict.
std::optional<Line> banner(const Scene& scene) {
  const Monitored& seen = scene.seen;
  if (!seen.open)
    return Line(
        fmt::format("waiting for the driver to answer, {} s; q quits", scene.state.waited_s),
        {Tone::waiting, true, false});
  if (seen.waits_for_wanted)
    return Line("waiting for the process of --pid: it holds no GPU", {Tone::waiting, true, false});
  if (seen.driver_gone)
    return Line(
        "the driver is gone (unloaded or restarted): it is tried again every second; what is shown "
        "is from before",
        {Tone::problem, true, true});
  if (seen.silence)
    return Line(
        fmt::format("driver not answering for {} s (call: {}); values are from before. q quits",
                    std::chrono::duration_cast<std::chrono::seconds>(seen.silence->since).count(),
                    seen.silence->call),
        {Tone::problem, true, true});
  return std::nullopt;
}

std::string lost_words(const Monitored& seen) {
  std::vector<int> lost;
  for (const GpuNow& gpu : seen.gpus)
    if (gpu.lost) lost.push_back(gpu.info.index);
  if (lost.empty()) return {};
  return gpu_list(lost) + " lost: the driver gives no more readings of it";
}

}  // namespace

std::vector<Line> title_lines(const Scene& scene) {
  const Monitored& seen = scene.seen;
  Line left("lockstep", {Tone::accent, true, false});
  left.add(" " + machine_words(seen));
  if (seen.machine.host && scene.layout.columns >= 70)
    left.add(" on " + printable(*seen.machine.host), {Tone::faint, false, false});
  if (seen.machine.driver && scene.layout.columns >= 100)
    left.add(", driver " + printable(*seen.machine.driver), {Tone::faint, false, false});
  if (seen.playback && scene.layout.columns >= 100)
    left.add(" " + printable(seen.detail), {Tone::faint, false, false});
  Line right;
  add_place(right, scene);
  left.fit(std::max(0, scene.layout.columns - right.width()));
  for (const Line::Span& span : right.spans()) left.add(span.text, span.style);
  return {std::move(left)};
}

namespace {

// The pattern, how sure, and of what: now, or of the moment that is looked at.
Line pattern_line(const Scene& scene) {
  const Monitored& seen = scene.seen;
  const bool past = scene.state.right_ms.has_value();
  auto verdict = past ? seen.history.verdict_at(scene.state.cursor_ms.value_or(scene.view.right_ms))
                      : std::nullopt;
  if (!past && seen.report) verdict = seen.report->verdict;
  if (!verdict)
    return Line(seen.gpus.empty() ? "no GPU to watch" : "watching: a verdict needs a few seconds",
                Style{Tone::faint, false, false});
  const bool judged = verdict->pattern != Pattern::idle && verdict->pattern != Pattern::unclear;
  const bool healthy = is_healthy(verdict->pattern);
  // Of the past only the pattern is kept: that nothing else was wrong then is not known.
  const Concern concern = !judged    ? Concern::none
                          : !healthy ? Concern::problem
                          : past     ? Concern::none
                                     : concern_of(seen.report->findings);
  const Tone tone = tone_of(concern);
  Line line;
  line.add(concern == Concern::good      ? "\u2713 "
           : concern == Concern::waiting ? "* "
           : concern == Concern::problem ? "! "
                                         : "  ",
           {tone, true, false});
  line.add(std::string(kPatternNames[static_cast<std::size_t>(verdict->pattern)]),
           {tone, true, false});
  if (judged) line.add(fmt::format(" {:.0f}%", verdict->confidence * 100), {tone, false, false});
  if (judged && healthy && !past && !seen.report->findings.empty())
    line.add(but_words(seen.report->findings.front()), {tone, true, false});
  if (!past && seen.report->jobs.size() > 1)
    line.add(fmt::format("  job 1 of {}:", seen.report->jobs.size()), {Tone::faint, false, false});
  line.add("  " + printable(verdict->sentence));
  return line;
}

// What is lost, what it costs, and where the GPU time went.
Line cost_line(const Scene& scene) {
  const Monitored& seen = scene.seen;
  const bool past = scene.state.right_ms.has_value();
  Line line;
  const auto add = [&line](const std::string& words, Tone tone) {
    line.add(line.width() > 0 ? "; " : "").add(words, {tone, false, false});
  };
  if (const std::string lost = lost_words(seen); !lost.empty())
    line.add(lost, {Tone::problem, true, false});
  if (past) {
    add("the panels below are of now; Esc leads back to the present", Tone::faint);
    return line;
  }
  if (!seen.report) return line;
  const Report& report = *seen.report;
  if (!report.findings.empty()) {
    // Without a finding nothing is known to be missing, and 100 % would be a boast.
    if (report.throughput)
      add(fmt::format("throughput {:.0f}% of what is possible here",
                      report.throughput->now / std::max(report.throughput->possible, 1e-9) * 100),
          Tone::waiting);
    add(names_of(report.findings), Tone::waiting);
  } else {
    const std::size_t suspicions = report.suspicions.size();
    add(suspicions == 0
            ? "no finding"
            : fmt::format("no finding; {} suspicion{}", suspicions, suspicions == 1 ? "" : "s"),
        Tone::faint);
  }
  if (!report.jobs.empty() && report.jobs.front().ledger.gpu_seconds > 0 && report.verdict &&
      report.verdict->pattern != Pattern::idle)
    line.add("; GPU time: " + ledger_words(report.jobs.front().ledger),
             {Tone::faint, false, false});
  return line;
}

}  // namespace

std::vector<Line> verdict_lines(const Scene& scene) {
  std::vector<Line> lines;
  auto words = banner(scene);
  lines.push_back(words ? std::move(*words) : pattern_line(scene));
  Line second = cost_line(scene);
  // With one row only, a lost GPU matters more than the verdict of the others.
  if (scene.layout.verdict.height < 2 && !lost_words(scene.seen).empty() && !scene.seen.silence)
    lines.front() = std::move(second);
  else
    lines.push_back(std::move(second));
  lines.resize(static_cast<std::size_t>(scene.layout.verdict.height));
  for (Line& line : lines) line.fit(scene.layout.columns);
  return lines;
}

Line heading(const Scene& scene, Panel panel, std::string_view words, std::string_view right) {
  const bool focused = scene.state.focus == panel;
  const Style rule{focused ? Tone::accent : Tone::faint, false, false};
  Line line;
  line.repeat("\u2500", 2, rule)
      .add(" ", rule)
      .add(cut(words, scene.layout.columns - 4 - (right.empty() ? 0 : columns_of(right) + 2)),
           {focused ? Tone::accent : Tone::plain, focused, false})
      .add(" ", rule);
  const int end = scene.layout.columns - (right.empty() ? 0 : columns_of(right) + 2);
  line.repeat("\u2500", end - line.width(), rule);
  if (!right.empty()) line.add(fmt::format(" {} ", right), {Tone::faint, false, false});
  return line.fit(scene.layout.columns);
}

Line footer_line(const Scene& scene) {
  const int columns = scene.layout.columns;
  Line line;
  if (const auto* prompt = std::get_if<TextPrompt>(&scene.state.overlay)) {
    line.add(prompt->what == TextPrompt::For::filter ? "filter: " : "go to time (1:30): ",
             {Tone::accent, true, false});
    line.add(printable(prompt->text)).add(" ", {Tone::plain, false, true});
    line.add("  Enter keeps it, Esc drops it", {Tone::faint, false, false});
    return line.fit(columns);
  }
  if (!scene.state.message.empty())
    return line.add(printable(scene.state.message), {Tone::accent, false, false}).fit(columns);
  struct Hint {
    const char* key;
    const char* words;
  };
  static constexpr Hint kLive[] = {{"q", "quit"},       {"?", "help"},   {"Space", "pause"},
                                   {"z/Z", "zoom"},     {"v", "lanes"},  {"Tab", "panel"},
                                   {"Enter", "detail"}, {"/", "filter"}, {"r", "record"},
                                   {"y", "copy fix"},   {"F2", "setup"}, {"F9", "signal"}};
  static constexpr Hint kReplay[] = {
      {"q", "quit"},   {"?", "help"},     {"Space", "pause"}, {"+/-", "speed"}, {"[ ]", "seek"},
      {"L", "loop"},   {"z/Z", "zoom"},   {"v", "lanes"},     {"Tab", "panel"}, {"Enter", "detail"},
      {"/", "filter"}, {"y", "copy fix"}, {"F2", "setup"}};
  std::string right;
  if (scene.seen.cost && columns >= 150)
    right = fmt::format("every {}, {:.1f}% of the time in the driver",
                        format_duration(scene.seen.interval), *scene.seen.cost * 100);
  if (!scene.state.filter.empty()) right = fmt::format("filter: {}", printable(scene.state.filter));
  const int room = columns - (right.empty() ? 0 : columns_of(right) + 1);
  for (const Hint& hint :
       scene.seen.live() ? std::span<const Hint>(kLive) : std::span<const Hint>(kReplay)) {
    if (scene.state.read_only && std::string_view(hint.key) == "F9") continue;
    if (line.width() + columns_of(hint.key) + columns_of(hint.words) + 2 > room) break;
    line.add(hint.key, {Tone::accent, true, false})
        .add(fmt::format(" {}  ", hint.words), {Tone::faint, false, false});
  }
  line.fit(room);
  if (!right.empty()) line.add(" " + right, {Tone::faint, false, false});
  return line.fit(columns);
}

}  // namespace lockstep
