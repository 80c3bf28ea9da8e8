#include "render/markdown/markdown_renderer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "render/words/device_words.hpp"
#include "render/words/fleet_words.hpp"
#include "render/words/trace_words.hpp"
#include "render/words/words.hpp"

namespace lockstep {
namespace {

// Text from outside in a sentence: nothing in it may become markup.
std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : printable(text)) {
    if (std::string_view("\\`*_{}[]<>#|!~").find(c) != std::string_view::npos) safe += '\\';
    safe += c;
  }
  return safe;
}

// A block of code that the text cannot close.
std::string fenced(const std::string& text, std::string_view language) {
  std::string fence = "```";
  while (text.find(fence) != std::string::npos) fence += '`';
  return fmt::format("{}{}\n{}\n{}\n", fence, language, text, fence);
}

std::string printable_lines(const std::string& text) {
  std::string safe;
  for (const std::string_view line :
       split(text.ends_with('\n') ? std::string_view(text).substr(0, text.size() - 1)
                                  : std::string_view(text),
             '\n'))
    safe += (safe.empty() ? "" : "\n") +
            printable(line.ends_with('\r') ? line.substr(0, line.size() - 1) : line);
  return safe;
}

std::string gpu_table(const Report& report) {
  if (report.gpus.empty()) return {};
  std::string text = "| GPU | name | busy | power | memory |\n|---|---|---|---|---|\n";
  for (const GpuReport& gpu : report.gpus)
    text +=
        fmt::format("| {} | {} | {} | {} | {} |\n",
                    gpu.info.host ? escaped(gpu_label(gpu.info)) : std::to_string(gpu.info.index),
                    escaped(gpu.info.name.value_or("-")),
                    gpu.busy ? fmt::format("{:.0f} %", *gpu.busy * 100) : "-",
                    gpu.power_mw ? fmt::format("{:.0f} W", *gpu.power_mw / 1e3) : "-",
                    gpu.memory_used_bytes ? format_bytes(*gpu.memory_used_bytes) : "-");
  return text + "\n";
}

std::string finding_text(const Finding& finding, bool suspected) {
  const FindingName& name = name_of(finding.code);
  std::string text = fmt::format(
      "### {} {}{}\n\n{}, {:.0f} % sure{}. ", name.id, name.name, suspected ? " (suspected)" : "",
      severity_word(finding.severity), finding.confidence * 100,
      has_a_place(finding) ? ", on " + escaped(where_words(finding)) : "");
  if (finding.lost_throughput >= 0.005) text += cost_sentence(finding) + ".";
  text += "\n\n";
  for (const Evidence& item : finding.evidence)
    text += fmt::format("- {}\n", escaped(evidence_words(item)));
  if (!finding.evidence.empty()) text += "\n";
  if (!finding.where.empty())
    text += fmt::format("At {}{}.\n\n", escaped(place_list(finding)),
                        finding.reason.empty() ? "" : ": " + escaped(finding.reason));
  for (const Fix& fix : finding.fixes) {
    text += fmt::format("Fix: {}{}\n\n", escaped(fix.description),
                        fix.safety == FixSafety::unsafe ? " (may change results)" : "");
    if (!fix.command.empty()) text += fenced(command_words(fix.command), "sh") + "\n";
    if (fix.diff) text += fenced(printable_lines(*fix.diff), "diff") + "\n";
  }
  return text;
}

std::string steps_text(const StepSignals& steps) {
  constexpr std::size_t kMostPlaces = 20;
  std::string text = fmt::format(
      "## Steps\n\n{} of {} (median){}.\n\n| part | median | 95 % | longest | share "
      "|\n|---|---|---|---|---|\n",
      steps.count, milliseconds_words(steps.duration_p50_ms),
      steps.ranks.size() > 1 ? fmt::format(" on each of {} ranks", steps.ranks.size()) : "");
  for (std::size_t part = 0; part < kStepSpanNames.size(); ++part)
    if (steps.share[part] >= 0.0005 || steps.max_ms[part] >= 0.05)
      text += fmt::format("| {} | {} | {} | {} | {:.1f} % |\n", part_words(part),
                          milliseconds_words(steps.p50_ms[part]),
                          milliseconds_words(steps.p95_ms[part]),
                          milliseconds_words(steps.max_ms[part]), steps.share[part] * 100);
  text += "\n";
  if (std::ranges::all_of(steps.places,
                          [](const PlaceSignals& place) { return place.place.file.empty(); }))
    return text;
  text += "| share | part | what | where | how often |\n|---|---|---|---|---|\n";
  std::size_t lines = 0;
  for (const PlaceSignals& place : steps.places) {
    if (place.share < 0.005 || place.place.file.empty() || lines++ == kMostPlaces) continue;
    text += fmt::format("| {:.1f} % | {} | {} | {} | {} |\n", place.share * 100,
                        part_words(index_of(place.part)), escaped(what_words(place)),
                        escaped(fmt::format("{}:{}", place.place.file, place.place.line)),
                        escaped(how_often_words(place)));
  }
  return text + "\n";
}

std::string table_text(const WordTable& table) {
  const auto line = [](const std::vector<std::string>& cells) {
    std::string text = "|";
    for (const std::string& cell : cells) text += " " + escaped(cell) + " |";
    return text + "\n";
  };
  std::string text = "### " + escaped(table.title) + "\n\n" + line(table.heading) + "|---|";
  for (std::size_t i = 1; i < table.heading.size(); ++i) text += "---:|";
  text += "\n";
  for (const std::vector<std::string>& row : table.rows) text += line(row);
  return text + "\n";
}

std::string trace_text(const TraceSignals& trace) {
  std::string text = "## Trace\n\n" + escaped(trace_sentence(trace)) + ".\n\n";
  for (const WordTable& table : trace_tables(trace)) text += table_text(table);
  if (const std::string path = critical_path_words(trace); !path.empty())
    text += "Critical path: " + escaped(path) + ".\n\n";
  for (const std::string& sentence : what_if_sentences(trace))
    text += "- " + escaped(sentence) + "\n";
  return text + "\n";
}

std::string devices_text(const Report& report) {
  std::string text;
  if (const auto jobs = job_table(report)) text += table_text(*jobs);
  if (const auto clocks = clock_table(report)) text += table_text(*clocks);
  for (const WordTable& table : device_tables(report)) text += table_text(table);
  for (const std::string& sentence : device_sentences(report))
    text += "- " + escaped(sentence) + "\n";
  if (!text.empty()) text += "\n";
  if (const std::string standing = standing_words(report); !standing.empty())
    text += escaped(standing) + "\n\n";
  return text;
}

std::string changes_text(const Comparison& comparison, const std::string& own) {
  std::string text = "## Comparison\n\n";
  for (const std::string& sentence : change_sentences(comparison, own))
    text += "- " + escaped(sentence) + "\n";
  return text + "\n" + table_text(change_table(comparison, own));
}

}  // namespace

std::string MarkdownRenderer::render(const Report& report) const {
  std::string text = "# lockstep diagnosis\n\n";
  if (report.verdict)
    text += fmt::format("**{}**: {}{}\n\n",
                        kPatternNames[static_cast<std::size_t>(report.verdict->pattern)],
                        escaped(report.verdict->sentence), how_sure_words(*report.verdict));
  if (report.source_kind == SourceKind::log)
    text += escaped(log_sentence(report)) + ".\n\n";
  else
    text += fmt::format("Source: {}{}, {}.\n\n", is_virtual(report) ? "virtual GPUs, " : "",
                        escaped(report.source_detail), watched_words(report));
  if (report.comparison && report.trace)
    text += changes_text(*report.comparison, input_name(report.source_detail));
  else if (report.comparison)
    text += fmt::format("speedup: {:.2f}x against {} (ideal {:.2f}x, efficiency {:.0f} %)\n\n",
                        report.comparison->speedup, escaped(report.comparison->against),
                        report.comparison->ideal, report.comparison->efficiency * 100);
  if (report.comparison && !report.comparison->changes.empty() && !report.trace)
    text += table_text(step_change_table(*report.comparison));
  if (!report.no_comparison.empty())
    text += fmt::format("No speedup: {}.\n\n", escaped(report.no_comparison));
  if (const auto throughput = throughput_words(report)) text += escaped(*throughput) + ".\n\n";
  if (const auto gpu_time = gpu_time_words(report)) text += *gpu_time + ".\n\n";
  if (const auto held = held_after_words(report)) text += escaped(*held) + ".\n\n";
  if (const auto undecided = undecided_words(report)) text += escaped(*undecided) + ".\n\n";
  text += gpu_table(report);
  if (!report.pictures.empty()) {
    const LanePicture& picture = report.pictures.front();
    std::string lanes;
    for (const LaneRow& row : picture.rows)
      lanes += fmt::format("{}GPU {:<3} {}", lanes.empty() ? "" : "\n", row.gpu,
                           lane_bars(row, kLaneColumns));
    text +=
        fenced(lanes, "") + fmt::format("\n{}, from {:.1f} s, {:.2f} s per column\n\n",
                                        picture.made_of, picture.from_s,
                                        picture.column_s * static_cast<double>(kPictureColumns) /
                                            static_cast<double>(kLaneColumns));
  }
  if (report.steps && report.source_kind != SourceKind::log) text += steps_text(*report.steps);
  text += devices_text(report);
  if (report.trace) text += trace_text(*report.trace);
  if (report.loader) text += "## Data loader\n\n" + escaped(report.loader->sentence) + "\n\n";
  text += report.findings.empty() ? fmt::format("## No findings{}\n\n", as_far_as_seen(report))
                                  : "## Findings\n\n";
  if (report.findings_left_out > 0)
    text += fmt::format("{} not asked for and left out.\n\n", report.findings_left_out);
  for (const Finding& finding : report.findings) text += finding_text(finding, false);
  if (!report.suspicions.empty()) text += "## Suspicions\n\n";
  for (const Finding& finding : report.suspicions) text += finding_text(finding, true);
  if (!report.checklist.empty()) {
    text += "## Checklist\n\n";
    for (const CheckItem& item : report.checklist)
      text += fmt::format("- [{}] {}: {}\n", item.yes.value_or(false) ? 'x' : ' ',
                          escaped(item.question),
                          (item.yes ? "" : "unknown, ") + escaped(item.measured));
    text += "\n";
  }
  if (!report.not_measured.empty()) text += "## Not measured\n\n";
  for (const NotMeasured& entry : report.not_measured)
    text += fmt::format("- {}: {}\n", escaped(entry.signal), escaped(entry.reason));
  return text;
}

}  // namespace lockstep
