#include "render/html/html_renderer.hpp"

#include <fmt/format.h>

#include "render/html/html_parts.hpp"
#include "render/html/html_steps.hpp"
#include "render/html/html_trace.hpp"
#include "render/words/trace_words.hpp"
#include "render/words/words.hpp"

namespace lockstep {

std::string HtmlRenderer::render(const Report& report) const {
  const bool profiled = !report.verdict && report.steps;
  const std::string pattern =
      profiled ? "profile"
      : report.verdict
          ? std::string(kPatternNames[static_cast<std::size_t>(report.verdict->pattern)])
          : "messages";
  std::string html = page_start(pattern);
  html += fmt::format("<h1>{}</h1>", escaped(pattern));
  if (report.verdict)
    html += fmt::format("<p class=\"sentence\">{}<span class=\"soft\">{}</span></p>",
                        escaped(report.verdict->sentence), how_sure_words(*report.verdict));
  if (report.trace && report.source_kind == SourceKind::trace)
    html += fmt::format("<p class=\"soft\">{}: {}</p>", escaped(input_name(report.source_detail)),
                        escaped(trace_sentence(*report.trace)));
  else if (report.source_kind == SourceKind::log)
    html += fmt::format("<p class=\"soft\">{}</p>", escaped(log_sentence(report)));
  else if (report.gpus.empty() && report.steps)
    html +=
        fmt::format("<p class=\"soft\">no GPU was seen; watched {:.1f} s</p>", report.duration_s);
  else
    html += fmt::format(
        "<p class=\"soft\">{} {}GPU{}, {}, {}{}</p>", report.gpus.size(),
        is_virtual(report) ? "virtual " : "", report.gpus.size() == 1 ? "" : "s",
        escaped(report.source_detail), watched_words(report),
        report.trace ? "; traced: " + escaped(trace_sentence(*report.trace)) : std::string());
  if (report.comparison && report.trace)
    html += changes_html(*report.comparison, input_name(report.source_detail));
  else if (report.comparison)
    html += fmt::format(
        "<p class=\"sentence\">speedup: {:.2f}x against {} (ideal {:.2f}x, efficiency {:.0f} "
        "%)</p>",
        report.comparison->speedup, escaped(report.comparison->against), report.comparison->ideal,
        report.comparison->efficiency * 100);
  if (report.comparison && !report.comparison->changes.empty() && !report.trace)
    html += step_changes_html(*report.comparison);
  if (!report.no_comparison.empty())
    html += fmt::format("<p>no speedup: {}</p>", escaped(report.no_comparison));
  if (const auto throughput = throughput_words(report))
    html += fmt::format("<p>{}</p>", escaped(*throughput));
  if (const auto gpu_time = gpu_time_words(report)) html += fmt::format("<p>{}</p>", *gpu_time);
  if (const auto held = held_after_words(report)) html += fmt::format("<p>{}</p>", escaped(*held));
  if (const auto undecided = undecided_words(report))
    html += fmt::format("<p>{}</p>", escaped(*undecided));
  if (!report.pictures.empty()) html += picture_html(report.pictures.front());
  if (report.steps && report.source_kind != SourceKind::log) html += steps_html(*report.steps);
  html += devices_html(report);
  if (report.trace) html += trace_html(*report.trace);
  if (report.loader)
    html += fmt::format("<h2>Data loader</h2><p>{}</p>", escaped(report.loader->sentence));
  html += report.findings.empty() ? fmt::format("<h2>No findings{}</h2>", as_far_as_seen(report))
                                  : "<h2>Findings</h2>";
  if (report.findings_left_out > 0)
    html += fmt::format("<p class=\"soft\">{} not asked for and left out</p>",
                        report.findings_left_out);
  for (const Finding& finding : report.findings) html += finding_html(finding, false);
  for (std::size_t i = 1; i < report.pictures.size(); ++i) html += picture_html(report.pictures[i]);
  if (!report.checklist.empty()) html += "<h2>Checklist</h2>" + checklist_html(report.checklist);
  if (!report.suspicions.empty()) html += "<h2>Suspicions</h2>";
  for (const Finding& finding : report.suspicions) html += finding_html(finding, true);
  if (!report.gpus.empty()) html += gpus_html(report);
  if (!report.not_measured.empty()) {
    html += "<h2>Not measured</h2><ul class=\"soft\">";
    for (const NotMeasured& entry : report.not_measured)
      html += fmt::format("<li>{}: {}</li>", escaped(entry.signal), escaped(entry.reason));
    html += "</ul>";
  }
  return html + page_end();
}

}  // namespace lockstep
