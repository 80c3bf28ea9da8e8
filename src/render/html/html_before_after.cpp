#include "render/html/html_before_after.hpp"

#include <fmt/format.h>

#include "render/html/html_parts.hpp"
#include "render/words/words.hpp"

namespace lockstep {
namespace {

// What is seen at once: the word and the lanes.
std::string glance_html(const MeasuredRun& run) {
  std::string html = fmt::format("<h2>{}</h2>", escaped(run.title));
  if (run.report.verdict)
    html += fmt::format(
        "<p class=\"sentence\"><b>{}</b>: {} <span class=\"soft\">({:.0f} % sure)</span> {:.0f} "
        "tokens/s</p>",
        kPatternNames[static_cast<std::size_t>(run.report.verdict->pattern)],
        escaped(run.report.verdict->sentence), run.report.verdict->confidence * 100,
        run.tokens_per_s);
  if (!run.report.pictures.empty()) html += picture_html(run.report.pictures.front());
  return html;
}

std::string details_html(const MeasuredRun& run) {
  std::string html = fmt::format("<h2>{}, in full</h2><pre>{}</pre>", escaped(run.title),
                                 escaped(command_words(run.command)));
  if (run.report.findings.empty()) html += "<p class=\"yes\">no findings</p>";
  for (const Finding& finding : run.report.findings) html += finding_html(finding, false);
  return html + checklist_html(run.report.checklist) + gpus_html(run.report);
}

}  // namespace

std::string before_after_html(const BeforeAfter& runs) {
  const bool virtual_gpus = is_virtual(runs.after.report);
  std::string html = page_start(fmt::format("{:.2f}x", runs.speedup()));
  html += fmt::format(
      "<h1>speedup: {:.2f}x</h1><p class=\"sentence\">{:.0f} tokens/s before, {:.0f} after, on {} "
      "{}GPUs</p>",
      runs.speedup(), runs.before.tokens_per_s, runs.after.tokens_per_s,
      runs.after.report.gpus.size(), virtual_gpus ? "virtual " : "");
  if (runs.disturbed_by) html += fmt::format("<p class=\"no\">{}</p>", escaped(*runs.disturbed_by));
  return html + glance_html(runs.before) + glance_html(runs.after) + details_html(runs.before) +
         details_html(runs.after) + page_end();
}

}  // namespace lockstep
