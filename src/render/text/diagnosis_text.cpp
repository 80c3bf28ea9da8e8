#include "render/text/diagnosis_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "render/text/paint.hpp"
#include "render/text/steps_text.hpp"
#include "render/text/table.hpp"
#include "render/text/trace_text.hpp"
#include "render/words/fleet_words.hpp"
#include "render/words/trace_words.hpp"
#include "render/words/words.hpp"

namespace lockstep {
namespace {

std::string seconds(double value) {
  return format_duration(std::chrono::nanoseconds(std::llround(value * 1e9)));
}

std::string numbers_of(const GpuReport& gpu) {
  std::vector<std::string> parts;
  if (gpu.busy) parts.push_back(fmt::format("{:3.0f} % busy", *gpu.busy * 100));
  if (gpu.power_mw)
    parts.push_back(gpu.info.power_limit_mw
                        ? fmt::format("{:3.0f} of {:.0f} W", *gpu.power_mw / 1e3,
                                      *gpu.info.power_limit_mw / 1e3)
                        : fmt::format("{:.0f} W", *gpu.power_mw / 1e3));
  if (gpu.memory_used_bytes) parts.push_back(format_bytes(*gpu.memory_used_bytes));
  return join(parts, "  ");
}

// One look has no lanes, and numbers all the same.
std::string numbers_text(const Report& report) {
  constexpr std::size_t kMostRows = 64;
  if (report.trace || report.gpus.size() > kMostRows) return {};
  std::string text;
  for (const GpuReport& gpu : report.gpus)
    if (const std::string numbers = numbers_of(gpu); !numbers.empty())
      text += fmt::format("  {:<6}  {}\n", gpu_label(gpu.info), numbers);
  return text.empty() ? text : text + "\n";
}

std::string lanes_text(const Report& report, std::size_t width, const Painter& paint) {
  if (report.pictures.empty()) return numbers_text(report);
  const LanePicture& picture = report.pictures.front();
  constexpr std::size_t kMostLanes = 16;  // of a fleet: more than a screen tells nothing
  if (has_several_machines(report) && picture.rows.size() > kMostLanes) return {};
  struct Words {
    std::string label;
    std::string numbers;
  };
  std::vector<Words> rows;
  std::size_t label_width = 6;
  for (const LaneRow& row : picture.rows) {
    rows.push_back({fmt::format("GPU {}", row.gpu), ""});
    for (const GpuReport& gpu : report.gpus)
      if (gpu.info.index == row.gpu) rows.back() = {gpu_label(gpu.info), numbers_of(gpu)};
    label_width = std::max(label_width, display_width(rows.back().label));
  }
  const std::size_t taken = label_width + 46;
  const std::size_t columns =
      std::clamp<std::size_t>(width > taken + 8 ? width - taken : 20, 20, kLaneColumns);
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i)
    text += fmt::format("  {}{} {}  {}\n", rows[i].label,
                        std::string(label_width - display_width(rows[i].label), ' '),
                        lane_bars(picture.rows[i], columns), rows[i].numbers);
  const double length =
      picture.column_s *
      static_cast<double>(picture.rows.empty() ? 0 : picture.rows.front().values.size());
  const std::string from = seconds(picture.from_s);
  const std::string to = seconds(picture.from_s + length);
  const std::size_t gap = columns > from.size() + to.size() ? columns - from.size() - to.size() : 1;
  text += paint.faint(fmt::format("{}{}{}{}  ({})", std::string(label_width + 3, ' '), from,
                                  std::string(gap, ' '), to, picture.made_of)) +
          "\n";
  return text + "\n";
}

std::string finding_text(const Finding& finding, std::size_t number, std::size_t width,
                         const Painter& paint) {
  const FindingName& name = name_of(finding.code);
  std::string text =
      fmt::format("{}. {}  {}, {:.0f} % sure{}\n", number,
                  paint.of(finding.severity, fmt::format("{} {}", name.id, name.name)),
                  severity_word(finding.severity), finding.confidence * 100,
                  has_a_place(finding)                         ? "  on " + where_words(finding)
                  : finding.is_fault && !finding.ranks.empty() ? " " + rank_list(finding)
                                                               : "");
  if (finding.lost_throughput >= 0.005) text += wrapped(cost_sentence(finding), 3, width);
  std::vector<std::string> evidence;
  for (const Evidence& item : finding.evidence) evidence.push_back(evidence_words(item));
  if (!evidence.empty()) text += wrapped("seen: " + join(evidence, "; "), 3, width);
  if (!finding.where.empty())
    text += wrapped(fmt::format("at: {}{}", place_list(finding),
                                finding.reason.empty() ? "" : ": " + printable(finding.reason)),
                    3, width);
  for (const Fix& fix : finding.fixes) {
    text += wrapped(fmt::format("fix: {}{}", printable(fix.description),
                                fix.safety == FixSafety::unsafe ? " (may change results)" : ""),
                    3, width);
    if (!fix.command.empty()) text += "     " + paint.bold(command_words(fix.command)) + "\n";
    if (fix.diff) text += diff_text(*fix.diff, 5, paint);
  }
  text += paint.faint(fmt::format("   more: lockstep explain {}", name.id)) + "\n";
  return text;
}

constexpr double kUnaccounted = 0.1;  // of the GPU time

std::string checklist_text(const Report& report, const Painter& paint) {
  const bool all_known =
      std::ranges::all_of(report.checklist, [](const CheckItem& item) { return !!item.yes; });
  std::string text;
  for (const CheckItem& item : report.checklist) {
    const std::string answer = fmt::format("{:<{}}", item.answer(), all_known ? 3 : 7);
    text += fmt::format("  {}  {}: {}\n", item.yes.value_or(false) ? paint.good(answer) : answer,
                        item.question, item.measured);
  }
  return text.empty() ? text : text + "\n";
}

// Two traces: what a step takes in each, and which findings are gone.
std::string changes_text(const Comparison& comparison, const std::string& own, std::size_t width,
                         const Painter& paint) {
  std::string text;
  for (const std::string& sentence : change_sentences(comparison, own))
    text += (text.empty() ? paint.bold(sentence) : sentence) + "\n";
  return text + "\n" + word_table_text(change_table(comparison, own), width, paint);
}

std::string comparison_text(const Comparison& comparison, const Painter& paint) {
  std::string text = paint.bold(fmt::format("speedup: {:.2f}x", comparison.speedup)) +
                     fmt::format(" against {} (ideal {:.2f}x, efficiency {:.0f} %, by {})\n",
                                 printable(comparison.against), comparison.ideal,
                                 comparison.efficiency * 100, comparison.measured_by);
  double explained = 0;
  for (const Comparison::Share& share : comparison.missing) {
    text += fmt::format("  missing {:.2f}x: {}\n", share.lost * comparison.ideal, share.code);
    explained += share.lost;
  }
  const double rest = 1 - comparison.efficiency - explained;
  if (rest > 0.02)
    text += fmt::format(
        "  missing {:.2f}x: not explained by a finding; next: lockstep profile -- CMD\n",
        rest * comparison.ideal);
  return text + "\n";
}

std::string verdict_text(const Report& report, Colors colors, std::size_t width,
                         const Painter& paint) {
  if (!report.verdict) {
    if (report.steps || !report.command || !report.command->exit_code) return {};
    return fmt::format(
        "nothing was judged: no GPU was held and too few training steps were seen before the "
        "command ended with code {}\n",
        *report.command->exit_code);
  }
  const std::string pattern(kPatternNames[static_cast<std::size_t>(report.verdict->pattern)]);
  const std::string text =
      wrapped(fmt::format("{}: {}{}", pattern, printable(report.verdict->sentence),
                          how_sure_words(*report.verdict)),
              0, width);
  const auto end = text.find(':');
  return colors == Colors::on ? paint.bold(text.substr(0, end)) + text.substr(end) : text;
}

// Figures are of the job's own time, where it has one.
std::string watched_and_worked_words(const Report& report) {
  constexpr double kMuchLess = 0.7;
  std::string words = watched_words(report);
  if (report.jobs.empty() || report.jobs.front().gpus.empty()) return words;
  const Job& job = report.jobs.front();
  const double worked = job.ledger.gpu_seconds / static_cast<double>(job.gpus.size());
  if (worked > 0 && worked < kMuchLess * report.duration_s)
    words += ", " + seconds(worked) + " of it the job's work";
  return words;
}

// What was looked at, and for how long.
std::string source_text(const Report& report, const Painter& paint) {
  if (report.source_kind == SourceKind::log) return paint.faint(printable(log_sentence(report)));
  if (report.source_kind == SourceKind::probe || (report.gpus.empty() && report.steps))
    return paint.faint(fmt::format("no GPU was seen; {} watched", seconds(report.duration_s)));
  if (report.trace && report.source_kind == SourceKind::trace)
    return paint.faint(fmt::format("{}: {}", printable(input_name(report.source_detail)),
                                   trace_sentence(*report.trace)));
  return paint.faint(
             fmt::format("{} {}GPU{}, {}, {}", report.gpus.size(),
                         is_virtual(report) ? "virtual " : "", report.gpus.size() == 1 ? "" : "s",
                         printable(report.source_detail), watched_and_worked_words(report))) +
         (report.trace ? paint.faint("; traced: " + trace_sentence(*report.trace)) : "");
}

std::string jobs_text(const Report& report, std::size_t width, const Painter& paint) {
  const auto jobs = job_table(report);
  std::string text;
  if (jobs) text += word_table_text(*jobs, width, paint);
  if (const auto clocks = clock_table(report)) text += word_table_text(*clocks, width, paint);
  if (jobs || report.jobs.size() < 2) return text;
  for (std::size_t i = 1; i < report.jobs.size(); ++i)
    if (const auto& verdict = report.jobs[i].verdict)
      text += fmt::format("also: {} ({})\n", printable(verdict->sentence),
                          kPatternNames[static_cast<std::size_t>(verdict->pattern)]);
  return text + "\n";
}

// Where the GPU time went, and what nobody knows of it.
std::string account_text(const Report& report, std::size_t width) {
  std::string text;
  if (const auto gpu_time = gpu_time_words(report);
      gpu_time && report.verdict && report.verdict->pattern != Pattern::idle)
    text += wrapped(*gpu_time, 0, width) + (report.findings.empty() ? "\n" : "");
  if (const auto held = held_after_words(report)) text += wrapped(*held, 0, width) + "\n";
  if (const auto undecided = undecided_words(report)) text += wrapped(*undecided, 0, width) + "\n";
  return text;
}

std::string against_text(const Report& report, std::size_t width, const Painter& paint) {
  std::string text;
  if (const auto& comparison = report.comparison; comparison && report.trace) {
    text += changes_text(*comparison, input_name(report.source_detail), width, paint);
  } else if (comparison) {
    text += comparison_text(*comparison, paint);
    if (!comparison->changes.empty())
      text += word_table_text(step_change_table(*comparison), width, paint);
  }
  if (!report.no_comparison.empty())
    text += wrapped("no speedup: " + report.no_comparison, 0, width) + "\n";
  return text;
}

// What the account shows as lost, but for the link, which takes its part of every healthy run.
double waits_without_a_finding(const Ledger& ledger) {
  return 1 - ledger[LedgerPart::working] - ledger[LedgerPart::link] - ledger[LedgerPart::unknown];
}

constexpr double kMuchExchanged = 0.3;
double exchanged(const Report& report) {
  return report.jobs.empty() ? 0 : report.jobs.front().ledger[LedgerPart::link];
}

// Healthy is said of what was proven so: all in step, each question answered with yes, and the GPU
// time accounted for.
bool is_proven_healthy(const Report& report) {
  const bool in_step = report.verdict && report.verdict->pattern == Pattern::in_step;
  const bool all_yes = std::ranges::all_of(
      report.checklist, [](const CheckItem& item) { return item.yes.value_or(false); });
  const bool heavy_suspicion = std::ranges::any_of(
      report.suspicions, [](const Finding& finding) { return finding.lost_throughput > 0.3; });
  const bool accounted =
      !report.probes_broke_off &&
      (report.jobs.empty() || (!report.jobs.front().held_after_s &&
                               report.jobs.front().ledger[LedgerPart::unknown] < kUnaccounted &&
                               report.jobs.front().ledger.waiting_is_known &&
                               waits_without_a_finding(report.jobs.front().ledger) < kUnaccounted));
  return in_step && all_yes && !heavy_suspicion && accounted && exchanged(report) < kMuchExchanged;
}

std::string without_findings_text(const Report& report, const Painter& paint) {
  std::string text;
  if (report.findings_left_out > 0)
    text = "no findings of those asked for\n";
  else if (is_proven_healthy(report))
    text = paint.good("healthy") + ": nothing found that costs 2 % or more\n";
  else
    text = fmt::format("no findings{}{}\n", as_far_as_seen(report),
                       exchanged(report) < kMuchExchanged
                           ? ""
                           : fmt::format(", though {:.0f} % of the time goes to collectives",
                                         exchanged(report) * 100));
  const bool asks = report.verdict && (report.verdict->pattern == Pattern::in_step ||
                                       report.verdict->pattern == Pattern::unclear);
  return text + (asks && !report.checklist.empty() ? checklist_text(report, paint) : "\n");
}

std::string findings_text(const Report& report, std::size_t width, const Painter& paint) {
  std::string text;
  for (std::size_t i = 0; i < report.findings.size(); ++i)
    text += finding_text(report.findings[i], i + 1, width, paint) + "\n";
  if (report.findings.empty()) text += without_findings_text(report, paint);
  if (report.findings_left_out > 0)
    text += fmt::format("left out by --only, --ignore or --min-severity: {} finding{}\n",
                        report.findings_left_out, report.findings_left_out == 1 ? "" : "s");
  return text;
}

std::string suspicion_text(const Finding& suspicion, std::size_t width) {
  const FindingName& name = name_of(suspicion.code);
  const std::string where = has_a_place(suspicion) ? " on " + where_words(suspicion) : "";
  const std::string cost = suspicion.lost_throughput >= 0.005
                               ? fmt::format(", up to {:.0f} %", suspicion.lost_throughput * 100)
                               : "";
  std::string text =
      wrapped(fmt::format("suspicion: {} {}{} ({:.0f} % sure{}): lockstep explain {}", name.id,
                          name.name, where, suspicion.confidence * 100, cost, name.id),
              0, width);
  bool quotes_the_program = false;
  for (const Evidence& item : suspicion.evidence)
    if (item.unit == "message") {
      text += wrapped("seen: " + evidence_words(item), 3, width);
      quotes_the_program = true;
    }
  if (quotes_the_program && !suspicion.fixes.empty())
    text += wrapped("if so: " + printable(suspicion.fixes.front().description), 3, width);
  return text;
}

// What is simply not in a file is one line; what a driver refused has its reason.
std::string not_measured_text(const Report& report, const Painter& paint) {
  constexpr std::string_view kAbsent = "not in the input";
  std::vector<std::string> absent;
  std::string text;
  for (const NotMeasured& entry : report.not_measured) {
    if (entry.reason.starts_with(kAbsent))
      absent.push_back(printable(signal_words(entry.signal)));
    else
      text += paint.faint(fmt::format("not measured: {}: {}", printable(entry.signal),
                                      printable(entry.reason))) +
              "\n";
  }
  if (!absent.empty())
    text += paint.faint(fmt::format("not measured: {}: {} (--json says what each would tell)",
                                    join(absent, ", "), kAbsent)) +
            "\n";
  return text;
}

}  // namespace

std::string DiagnosisText::render(const Report& report) const {
  const Painter paint(colors_);
  const std::size_t width = std::clamp<std::size_t>(width_.value_or(100), 60, 110);
  std::string text = verdict_text(report, colors_, width, paint);
  text += source_text(report, paint) + "\n\n";
  text += lanes_text(report, width, paint);
  text += jobs_text(report, width, paint);
  text += account_text(report, width);
  text += against_text(report, width, paint);
  if (const auto throughput = throughput_words(report))
    text += wrapped(*throughput, 0, width) + "\n";
  if (report.steps && report.source_kind != SourceKind::log)
    text += steps_text(*report.steps, width, paint);
  text += devices_text(report, width, paint);
  if (report.trace) text += trace_text(*report.trace, width, paint);
  if (report.loader) text += loader_text(*report.loader, width, paint);
  text += findings_text(report, width, paint);
  for (const Finding& suspicion : report.suspicions) text += suspicion_text(suspicion, width);
  return text + not_measured_text(report, paint);
}

}  // namespace lockstep
