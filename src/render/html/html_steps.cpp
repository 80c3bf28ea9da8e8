#include "render/html/html_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "render/html/flame_svg.hpp"
#include "render/html/html_course.hpp"
#include "render/html/html_parts.hpp"
#include "render/words/words.hpp"

namespace lockstep {
namespace {

constexpr double kStepWidth = 900;
constexpr double kStepLeft = 64;
constexpr double kRow = 22;
constexpr std::size_t kMostPlaces = 20;

std::string place_words(const CodePlace& place) {
  return place.file.empty() ? std::string() : fmt::format("{}:{}", place.file, place.line);
}

// Nested pieces in rows below each other, as they lie in time. Returns the shapes and how many rows
// they take.
std::pair<std::string, std::size_t> rows_of(const StepMark& step, double scale, double top) {
  constexpr std::size_t kDeepest = 4;
  std::vector<double> ends(kDeepest, 0);
  std::string shapes;
  std::size_t rows = 1;
  std::vector<const StepPiece*> pieces;
  for (const StepPiece& piece : step.detail->pieces)
    if (piece.count == 1) pieces.push_back(&piece);
  std::ranges::sort(pieces, [](const StepPiece* a, const StepPiece* b) {
    return a->from_ms != b->from_ms ? a->from_ms < b->from_ms : a->length_ms > b->length_ms;
  });
  for (const StepPiece* const piece : pieces) {
    std::size_t row = 0;
    while (row + 1 < kDeepest && ends[row] > piece->from_ms + 1e-6) ++row;
    for (std::size_t below = row; below < kDeepest; ++below)
      ends[below] = below == row ? piece->from_ms + piece->length_ms : 0;
    rows = std::max(rows, row + 1);
    const std::string what = piece->place->what.empty()
                                 ? std::string(kStepSpanNames[index_of(piece->part)])
                                 : piece->place->what;
    shapes += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.0f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"{}\"><title>{}: "
        "{} {} {}</title></rect>",
        kStepLeft + piece->from_ms * scale, top + static_cast<double>(row) * kRow + 2,
        std::max(0.6, piece->length_ms * scale), kRow - 4, part_color(piece->part),
        escaped(part_words(index_of(piece->part))), escaped(what),
        milliseconds_words(piece->length_ms), escaped(place_words(*piece->place)));
  }
  return {shapes, rows};
}

// One step on all its ranks, each from the end of its own step before.
std::string step_svg(const std::vector<StepMark>& ranks, std::string_view name) {
  constexpr std::size_t kMostRanks = 8;
  double longest = 1e-9;
  for (const StepMark& step : ranks) longest = std::max(longest, step.duration_ms);
  const double scale = kStepWidth / longest;
  const std::size_t shown = std::min(ranks.size(), kMostRanks);
  const std::string title = fmt::format(
      "{}, number {}: {}{}", name, ranks.front().index, milliseconds_words(longest),
      shown < ranks.size() ? fmt::format(" ({} of {} ranks shown)", shown, ranks.size()) : "");
  std::string shapes;
  double top = 0;
  for (std::size_t i = 0; i < shown; ++i) {
    const auto [rectangles, rows] = rows_of(ranks[i], scale, top);
    shapes += fmt::format("<text class=\"axis\" x=\"0\" y=\"{:.0f}\">rank {}</text>{}", top + 16,
                          ranks[i].rank, rectangles);
    top += static_cast<double>(rows) * kRow + 4;
  }
  const double height = top + 14;
  return fmt::format(
      "<h3>{}</h3><svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">{}<text "
      "class=\"axis\" x=\"{:.0f}\" y=\"{:.0f}\">0</text>"
      "<text class=\"axis\" x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"end\">{}</text></svg>",
      escaped(title), kStepLeft + kStepWidth, height, escaped(title), shapes, kStepLeft, height - 2,
      kStepLeft + kStepWidth, height - 2, milliseconds_words(longest));
}

std::string legend(const StepSignals& steps) {
  std::string html = "<p class=\"soft\">";
  for (std::size_t part = 0; part < kStepSpanNames.size(); ++part)
    if (steps.share[part] >= 0.001)
      html += fmt::format("<span style=\"color:{}\">&#9632;</span> {} &nbsp;",
                          part_color(static_cast<StepPart>(part)), part_words(part));
  return html + "</p>";
}

// Hidden collectives run beside other parts: they are no part of the whole.
std::string share_words(const StepSignals& steps, std::size_t part) {
  return part == index_of(StepPart::collective_hidden)
             ? fmt::format("({:.1f} %)", steps.share[part] * 100)
             : fmt::format("{:.1f} %", steps.share[part] * 100);
}

std::string parts_table(const StepSignals& steps) {
  std::string html =
      "<table><tr><th>part</th><th class=\"number\">median</th><th class=\"number\">95 %</th><th "
      "class=\"number\">longest</th><th class=\"number\">share</th></tr>";
  for (std::size_t part = 0; part < kStepSpanNames.size(); ++part) {
    if (steps.share[part] < 0.0005 && steps.max_ms[part] < 0.05) continue;
    html += fmt::format(
        "<tr><td><span style=\"color:{}\">&#9632;</span> {}</td><td class=\"number\">{}</td><td "
        "class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td></tr>",
        part_color(static_cast<StepPart>(part)), part_words(part),
        milliseconds_words(steps.p50_ms[part]), milliseconds_words(steps.p95_ms[part]),
        milliseconds_words(steps.max_ms[part]), share_words(steps, part));
  }
  return html + "</table>";
}

std::string ranks_table(const StepSignals& steps) {
  if (steps.ranks.size() < 2) return "";
  constexpr std::size_t kMostRanks = 64;
  std::vector<std::size_t> parts;
  for (std::size_t part = 0; part < kStepSpanNames.size(); ++part)
    if (part != index_of(StepPart::collective_hidden) &&
        std::ranges::any_of(steps.ranks,
                            [part](const RankSteps& rank) { return rank.share[part] >= 0.005; }))
      parts.push_back(part);
  std::string html =
      "<h3>By rank</h3><table><tr><th class=\"number\">rank</th><th class=\"number\">steps</th><th "
      "class=\"number\">median</th>";
  for (const std::size_t part : parts)
    html += fmt::format("<th class=\"number\">{}</th>", part_words(part));
  html += "</tr>";
  for (std::size_t i = 0; i < steps.ranks.size() && i < kMostRanks; ++i) {
    const RankSteps& rank = steps.ranks[i];
    html += fmt::format(
        "<tr><td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>",
        rank.rank, rank.count, milliseconds_words(rank.duration_ms));
    for (const std::size_t part : parts)
      html += fmt::format("<td class=\"number\">{:.1f} %</td>", rank.share[part] * 100);
    html += "</tr>";
  }
  return html + "</table>";
}

std::string places_table(const StepSignals& steps) {
  if (std::ranges::all_of(steps.places,
                          [](const PlaceSignals& place) { return place.place.file.empty(); }))
    return {};
  std::string html =
      "<h3>By line</h3><table><tr><th "
      "class=\"number\">share</th><th>part</th><th>what</th><th>where</th><th>how often</th></tr>";
  std::size_t lines = 0;
  for (const PlaceSignals& place : steps.places) {
    if (place.share < 0.005 || place.place.file.empty() || lines++ == kMostPlaces) continue;
    const bool some_ranks = steps.ranks.size() > 1 && place.ranks.size() < steps.ranks.size();
    html += fmt::format(
        "<tr><td class=\"number\">{:.1f} %</td><td>{}</td><td>{}</td><td>{}</td><td>{}{}</td></tr>",
        place.share * 100, part_words(index_of(place.part)), escaped(what_words(place)),
        escaped(place_words(place.place)), escaped(how_often_words(place)),
        some_ranks ? ", rank " + join_numbers(place.ranks) : "");
  }
  return html + "</table>";
}

}  // namespace

std::string steps_html(const StepSignals& steps) {
  std::string html = fmt::format(
      "<h2>Steps</h2><p>{} of {} (median){}</p>", steps.count,
      milliseconds_words(steps.duration_p50_ms),
      steps.ranks.size() > 1 ? fmt::format(" on each of {} ranks", steps.ranks.size()) : "");
  html += parts_table(steps) + ranks_table(steps);
  if (steps.places.empty()) return html + course_html(steps.course);
  html += places_table(steps);
  html += legend(steps) + course_html(steps.course);
  html += "<h3>A step, by part, function and line</h3>" +
          flame_svg(flame_graph(steps), SvgUse::within_a_page);
  if (!steps.median_step.empty()) html += step_svg(steps.median_step, "The median step");
  if (!steps.worst_step.empty()) html += step_svg(steps.worst_step, "The worst step");
  return html;
}

}  // namespace lockstep
