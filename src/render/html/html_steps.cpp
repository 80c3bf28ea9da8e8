#include "render/html/html_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "render/html/html_parts.hpp"
#include "render/words/words.hpp"

namespace lockstep {
namespace {

constexpr double kWidth = 900;
constexpr double kLeft = 64;
constexpr double kRow = 22;
constexpr std::size_t kMostPlaces = 20;

// Work in greens and blues, waiting in warm colours: distinct in both themes and for most colour-blind readers.
constexpr std::array<std::string_view, kStepSpanNames.size()> kColors = {"#d9822b", "#e0b23c", "#2f7ed8", "#1b5fa8", "#b5495b", "#b9a0a6", "#3a9d6e",
                                                                         "#8e5bb5", "#c75ba1", "#a3653a", "#5aa6a6", "#777777", "#b8b8b8"};

std::string place_words(const CodePlace& place) { return place.file.empty() ? std::string() : fmt::format("{}:{}", place.file, place.line); }

// Nested pieces in rows below each other, as they lie in time.
std::string step_svg(const StepMark& step, std::string_view title) {
  constexpr std::size_t kDeepest = 4;
  std::vector<double> ends(kDeepest, 0);
  std::string shapes;
  std::size_t rows = 1;
  const double scale = kWidth / std::max(step.duration_ms, 1e-9);
  std::vector<const StepPiece*> pieces;
  for (const StepPiece& piece : step.detail->pieces)
    if (piece.count == 1) pieces.push_back(&piece);
  std::sort(pieces.begin(), pieces.end(), [](const StepPiece* a, const StepPiece* b) { return a->from_ms != b->from_ms ? a->from_ms < b->from_ms : a->length_ms > b->length_ms; });
  for (const StepPiece* const piece : pieces) {
    std::size_t row = 0;
    while (row + 1 < kDeepest && ends[row] > piece->from_ms + 1e-6) ++row;
    for (std::size_t below = row; below < kDeepest; ++below) ends[below] = below == row ? piece->from_ms + piece->length_ms : 0;
    rows = std::max(rows, row + 1);
    const std::string what = piece->place->what.empty() ? std::string(kStepSpanNames[index_of(piece->part)]) : piece->place->what;
    shapes += fmt::format("<rect x=\"{:.2f}\" y=\"{:.0f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"{}\"><title>{}: {} {} {}</title></rect>", kLeft + piece->from_ms * scale,
                          static_cast<double>(row) * kRow + 2, std::max(0.6, piece->length_ms * scale), kRow - 4, kColors[index_of(piece->part)], escaped(part_words(index_of(piece->part))),
                          escaped(what), milliseconds_words(piece->length_ms), escaped(place_words(*piece->place)));
  }
  const double height = static_cast<double>(rows) * kRow + 18;
  return fmt::format("<h3>{}</h3><svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\"><text x=\"0\" y=\"16\">rank {}</text>{}<text class=\"axis\" x=\"{:.0f}\" y=\"{:.0f}\">0</text>"
                     "<text class=\"axis\" x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"end\">{}</text></svg>",
                     escaped(title), kLeft + kWidth, height, escaped(title), step.rank, shapes, kLeft, height - 4, kLeft + kWidth, height - 4, milliseconds_words(step.duration_ms));
}

std::string legend(const StepSignals& steps) {
  std::string html = "<p class=\"soft\">";
  for (std::size_t part = 0; part < kStepSpanNames.size(); ++part)
    if (steps.share[part] >= 0.001) html += fmt::format("<span style=\"color:{}\">&#9632;</span> {} &nbsp;", kColors[part], part_words(part));
  return html + "</p>";
}

std::string parts_table(const StepSignals& steps) {
  std::string html = "<table><tr><th>part</th><th>median</th><th>95 %</th><th>longest</th><th>share</th></tr>";
  for (std::size_t part = 0; part < kStepSpanNames.size(); ++part) {
    if (steps.share[part] < 0.0005 && steps.max_ms[part] < 0.05) continue;
    html += fmt::format("<tr><td><span style=\"color:{}\">&#9632;</span> {}</td><td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{:.1f} %</td></tr>", kColors[part],
                        part_words(part), milliseconds_words(steps.p50_ms[part]), milliseconds_words(steps.p95_ms[part]), milliseconds_words(steps.max_ms[part]), steps.share[part] * 100);
  }
  return html + "</table>";
}

std::string places_table(const StepSignals& steps) {
  std::string html = "<h3>By line</h3><table><tr><th>share</th><th>part</th><th>what</th><th>where</th><th>how often</th></tr>";
  std::size_t lines = 0;
  for (const PlaceSignals& place : steps.places) {
    if (place.share < 0.005 || place.place.file.empty() || lines++ == kMostPlaces) continue;
    const bool some_ranks = steps.ranks.size() > 1 && place.ranks.size() < steps.ranks.size();
    html += fmt::format("<tr><td class=\"number\">{:.1f} %</td><td>{}</td><td>{}</td><td>{}</td><td>{}{}</td></tr>", place.share * 100, part_words(index_of(place.part)), escaped(what_words(place)),
                        escaped(place_words(place.place)), escaped(how_often_words(place)), some_ranks ? ", rank " + join_numbers(place.ranks) : "");
  }
  return html + "</table>";
}

}  // namespace

std::string steps_html(const StepSignals& steps) {
  std::string html = fmt::format("<h2>Steps</h2><p>{} of {} (median){}</p>", steps.count, milliseconds_words(steps.duration_p50_ms), steps.ranks.size() > 1 ? fmt::format(" on each of {} ranks", steps.ranks.size()) : "");
  html += parts_table(steps);
  if (steps.places.empty()) return html;
  html += places_table(steps);
  html += legend(steps);
  if (steps.median_step) html += step_svg(*steps.median_step, fmt::format("The median step: {}", milliseconds_words(steps.median_step->duration_ms)));
  if (steps.worst_step) html += step_svg(*steps.worst_step, fmt::format("The worst step, number {}: {}", steps.worst_step->index, milliseconds_words(steps.worst_step->duration_ms)));
  return html;
}

}  // namespace lockstep
