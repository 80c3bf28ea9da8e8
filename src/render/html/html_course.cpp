#include "render/html/html_course.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "render/html/flame_svg.hpp"
#include "render/html/html_parts.hpp"
#include "render/words/words.hpp"

namespace lockstep {
namespace {

constexpr double kCourseLeft = 64;
constexpr double kCourseWidth = 900;
constexpr double kCourseHeight = 90;
constexpr double kCourseAxis = 18;
constexpr std::size_t kFewestSteps = 8;
constexpr std::size_t kMostCourses = 4;

// A step that is much longer than most would leave the others flat: what is above is cut off.
double top_of(const std::vector<RankCourse>& course) {
  constexpr double kTimesTheMedian = 3;
  std::vector<double> lengths;
  for (const RankCourse& rank : course)
    for (const StepColumn& column : rank.columns) lengths.push_back(column.mean_ms);
  std::ranges::sort(lengths);
  return std::min(lengths.back(), kTimesTheMedian * lengths[lengths.size() / 2]);
}

std::string numbers_words(const StepColumn& column) {
  return column.first == column.last ? fmt::format("step {}", column.first)
                                     : fmt::format("steps {} to {}", column.first, column.last);
}

std::string title_of(const StepColumn& column) {
  constexpr double kWorthNaming = 0.01;
  std::string text = numbers_words(column) + ": " + milliseconds_words(column.mean_ms);
  if (column.first != column.last)
    text += fmt::format(" (longest {})", milliseconds_words(column.longest_ms));
  for (std::size_t part = 0; part < column.spans_ms.size(); ++part)
    if (column.spans_ms[part] >= kWorthNaming * column.mean_ms)
      text += fmt::format("; {} {}", part_words(part), milliseconds_words(column.spans_ms[part]));
  return column.counts ? text : text + "; not counted";
}

std::string column_svg(const StepColumn& column, double x, double width, double top_ms) {
  std::string shapes;
  double under_ms = 0;
  const auto stack = [&](double length_ms, const std::string& color) {
    const double from = std::min(under_ms, top_ms);
    const double to = std::min(under_ms + length_ms, top_ms);
    under_ms += length_ms;
    const double height = (to - from) / top_ms * kCourseHeight;
    if (height < 0.05) return;
    shapes += fmt::format(
        R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" fill="{}"/>)", x,
        kCourseHeight - to / top_ms * kCourseHeight, std::max(0.5, width), height, color);
  };
  for (std::size_t part = 0; part < column.spans_ms.size(); ++part)
    if (part != index_of(StepPart::collective_hidden))  // beside other parts
      stack(column.spans_ms[part], std::string(part_color(static_cast<StepPart>(part))));
  if (column.mean_ms > under_ms) stack(column.mean_ms - under_ms, "var(--line)");
  if (column.mean_ms > top_ms)
    shapes +=
        fmt::format(R"svg(<rect x="{:.1f}" y="0" width="{:.1f}" height="3" fill="var(--bad)"/>)svg",
                    x, std::max(0.5, width));
  return fmt::format("<g{}><title>{}</title>{}</g>", column.counts ? "" : " opacity=\"0.4\"",
                     escaped(title_of(column)), shapes);
}

std::string rank_svg(const RankCourse& rank, double top_ms) {
  const double pitch = kCourseWidth / static_cast<double>(rank.columns.size());
  const double width = pitch > 3 ? pitch - 0.6 : pitch;
  std::string shapes;
  for (std::size_t i = 0; i < rank.columns.size(); ++i)
    shapes +=
        column_svg(rank.columns[i], kCourseLeft + static_cast<double>(i) * pitch, width, top_ms);
  return fmt::format(
      R"(<svg viewBox="0 0 {0:.0f} {1:.0f}" role="img" aria-label="all steps of rank {2}">)"
      R"(<text class="axis" x="0" y="10">{3}</text>)"
      R"(<text class="axis" x="0" y="{4:.0f}">rank {2}</text>)"
      R"({5}<text class="axis" x="{6:.0f}" y="{7:.0f}">step {8}</text>)"
      R"(<text class="axis" x="{0:.0f}" y="{7:.0f}" text-anchor="end">step {9}</text></svg>)",
      kCourseLeft + kCourseWidth, kCourseHeight + kCourseAxis, rank.rank,
      milliseconds_words(top_ms), kCourseHeight, shapes, kCourseLeft,
      kCourseHeight + kCourseAxis - 4, rank.columns.front().first, rank.columns.back().last);
}

}  // namespace

std::string course_html(const std::vector<RankCourse>& course) {
  std::size_t steps = 0;
  bool joined = false;
  bool uncounted = false;
  double longest_ms = 0;
  for (const RankCourse& rank : course) {
    steps = std::max(steps, rank.columns.size());
    for (const StepColumn& column : rank.columns) {
      longest_ms = std::max(longest_ms, column.mean_ms);
      joined = joined || column.first != column.last;
      uncounted = uncounted || !column.counts;
    }
  }
  if (steps < kFewestSteps) return "";
  const double top_ms = top_of(course);
  if (!(top_ms > 0)) return "";
  std::string html = "<h3>All steps</h3>";
  for (std::size_t i = 0; i < course.size() && i < kMostCourses; ++i)
    html += rank_svg(course[i], top_ms);
  std::string words = "How long each took, and its parts.";
  if (joined) words += " Steps that follow each other share a column, by their mean.";
  if (uncounted) words += " Pale ones are not counted: the warm-up, and what is left over.";
  if (longest_ms > top_ms) words += " A red top: longer than the picture is high.";
  if (course.size() > kMostCourses)
    words += fmt::format(" {} of {} ranks are shown.", kMostCourses, course.size());
  return html + fmt::format("<p class=\"soft\">{}</p>", words);
}

}  // namespace lockstep
