#include "runs/renderer_for.hpp"

#include "render/html/html_renderer.hpp"
#include "render/json/json_renderer.hpp"
#include "render/markdown/markdown_renderer.hpp"
#include "render/text/diagnosis_text.hpp"
#include "runs/observation.hpp"

namespace lockstep {

std::unique_ptr<Renderer> renderer_for(const RunOptions& options) {
  if (options.format == Format::json) return std::make_unique<JsonRenderer>();
  if (options.format == Format::markdown) return std::make_unique<MarkdownRenderer>();
  if (options.format == Format::html) return std::make_unique<HtmlRenderer>();
  return std::make_unique<DiagnosisText>(options.colors,
                                         options.output.empty() ? terminal_width() : std::nullopt);
}

void shorten_paths(Report& report, const std::filesystem::path& folder) {
  const std::string prefix = folder.string() + "/";
  const auto shorten = [&](std::string& file) {
    if (file.starts_with(prefix)) file.erase(0, prefix.size());
  };
  for (auto* findings : {&report.findings, &report.suspicions})
    for (Finding& finding : *findings)
      for (SourceLine& line : finding.where) shorten(line.file);
  if (report.steps)
    for (PlaceSignals& place : report.steps->places) shorten(place.place.file);
  if (report.stacks)
    for (SeenStack& stack : report.stacks->stacks) shorten(stack.place.file);
}

}  // namespace lockstep
