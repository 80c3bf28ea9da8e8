#include "render/html/flame_svg.hpp"

#include <fmt/format.h>

#include <array>

#include "render/html/html_parts.hpp"
#include "render/words/words.hpp"

namespace lockstep {
namespace {

constexpr double kFlameWidth = 960;
constexpr double kFrameRow = 20;
constexpr double kLetter = 6.6;  // of a monospaced font of 11 px

// Work in greens and blues, waiting in warm colours: distinct in both themes and for most
// colour-blind readers.
constexpr std::array<std::string_view, kStepSpanNames.size()> kColors = {
    "#d9822b", "#e0b23c", "#2f7ed8", "#1b5fa8", "#b5495b", "#b9a0a6", "#3a9d6e",
    "#8e5bb5", "#c75ba1", "#a3653a", "#5aa6a6", "#777777", "#b8b8b8"};

// As much of a name as fits, by whole letters.
std::string fitting(const std::string& name, double width) {
  const auto most = static_cast<std::size_t>(std::max(0.0, (width - 6) / kLetter));
  if (most < 3) return {};
  return name.size() <= most ? name : name.substr(0, most - 1) + "…";
}

void draw_frame(const FlameFrame& frame, double step_ms, double x, std::size_t depth,
                std::string& to) {
  const double width = frame.share * kFlameWidth;
  const double y = static_cast<double>(depth) * kFrameRow;
  const std::string where =
      frame.file.empty() ? "" : fmt::format(", {}:{}", escaped(frame.file), frame.line);
  const std::string length =
      step_ms > 0 ? fmt::format(", {} per step", milliseconds_words(frame.share * step_ms)) : "";
  to += fmt::format(
      "<g><title>{}: {:.1f} %{}{}</title>"
      "<rect x=\"{:.2f}\" y=\"{:.0f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"{}\" "
      "fill-opacity=\"{}\" rx=\"1\"/>"
      "<text x=\"{:.2f}\" y=\"{:.0f}\">{}</text></g>",
      escaped(frame.name), frame.share * 100, length, where, x, y, std::max(0.4, width - 0.8),
      kFrameRow - 1, depth == 0 ? std::string_view("#9aa4ad") : part_color(frame.part),
      depth > 1 ? 0.55 : 0.8, x + 4, y + 14, escaped(fitting(frame.name, width)));
  for (const FlameFrame& below : frame.within) {
    draw_frame(below, step_ms, x, depth + 1, to);
    x += below.share * kFlameWidth;
  }
}

}  // namespace

std::string_view part_color(StepPart part) { return kColors[index_of(part)]; }

std::string flame_svg(const FlameGraph& graph, SvgUse use) {
  std::string shapes;
  draw_frame(graph.whole, graph.step_ms, 0, 0, shapes);
  return fmt::format(
      "<svg{} viewBox=\"0 0 {:.0f} {:.0f}\" width=\"100%\" "
      "font-family=\"ui-monospace,monospace\" font-size=\"11\" fill=\"currentColor\" role=\"img\" "
      "aria-label=\"Where {} time goes, by line\">{}</svg>\n",
      use == SvgUse::file ? " xmlns=\"http://www.w3.org/2000/svg\"" : "", kFlameWidth,
      static_cast<double>(depth_of(graph.whole)) * kFrameRow,
      graph.step_ms > 0 ? "a step's" : "the main threads'", shapes);
}

}  // namespace lockstep
