#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/text.hpp"
#include "render/tui/panels.hpp"
#include "render/tui/step_parts.hpp"

namespace lockstep {

namespace {

// Rows that show where a step's time goes as letters, a letter for so many milliseconds.
std::string bar_of(const StepParts& parts, int columns, std::vector<Style>& styles) {
  std::string bar;
  double passed = 0;
  for (std::size_t i = 0; i < kStepLetters.size(); ++i) {
    if (!kStepLetters[i].counts) continue;
    passed += parts.share[i];
    while (static_cast<int>(bar.size()) < static_cast<int>(passed * columns + 0.5) &&
           static_cast<int>(bar.size()) < columns) {
      bar += kStepLetters[i].letter;
      styles.push_back({tone_of(kStepLetters[i].concern), false, false});
    }
  }
  while (static_cast<int>(bar.size()) < columns) {
    bar += ' ';
    styles.emplace_back();
  }
  return bar;
}

}  // namespace

std::map<int, StepParts> step_parts(const Monitored& seen, double until_ms) {
  constexpr double kLookBackMs = 10'000;
  constexpr std::size_t kFewest = 3;  // slow steps: at least so many, however old
  std::map<int, StepParts> ranks;
  for (auto entry = seen.steps.rbegin(); entry != seen.steps.rend(); ++entry) {
    if (entry->t_ms > until_ms) continue;
    StepParts& parts = ranks[entry->step.rank];
    if (parts.steps == 0) parts.last_index = entry->step.index;
    if (entry->t_ms < until_ms - kLookBackMs && parts.steps >= kFewest) continue;
    ++parts.steps;
    parts.duration_ms += entry->step.duration_ms;
    for (std::size_t i = 0; i < kStepSpanNames.size(); ++i)
      parts.share[i] += entry->step.spans_ms[i].value_or(0);
  }
  for (auto& [rank, parts] : ranks) {
    for (double& share : parts.share) share = parts.duration_ms > 0 ? share / parts.duration_ms : 0;
    parts.duration_ms /= static_cast<double>(parts.steps);
  }
  return ranks;
}

std::vector<Line> step_lines(const Scene& scene) {
  const Band& band = scene.layout.of(Panel::steps);
  std::vector<Line> lines;
  if (!band.shown()) return lines;
  const double until = looked_at_ms(scene.seen, scene.state);
  const auto ranks = step_parts(scene.seen, until);
  std::string legend;
  for (const StepLetter& part : kStepLetters)
    if (part.counts)
      legend += fmt::format("{}{} {}", legend.empty() ? "" : "  ", part.letter, part.words);
  lines.push_back(
      heading(scene, Panel::steps, "steps", cut(legend, std::max(0, scene.layout.columns - 16))));

  const int visible = band.height - 1;
  const int count = static_cast<int>(ranks.size());
  const int selected = std::clamp(scene.state.selected[static_cast<std::size_t>(Panel::steps)], 0,
                                  std::max(0, count - 1));
  const int first = first_shown(selected, count, visible);
  const int words_columns = scene.layout.columns >= 100 ? 44 : scene.layout.columns >= 72 ? 24 : 0;
  const int bar_columns = std::max(8, scene.layout.columns - 20 - words_columns);
  int row = 0;
  for (const auto& [rank, parts] : ranks) {
    const int here = row++;
    if (here < first || here >= first + visible) continue;
    Line line;
    const bool marked = scene.state.focus == Panel::steps && here == selected;
    line.left(fmt::format("rank {}", rank), 8,
              {marked ? Tone::accent : Tone::plain, marked, marked});
    line.right(fmt::format("{:.1f} ms", parts.duration_ms), 10).add("  ");
    std::vector<Style> styles;
    const std::string bar = bar_of(parts, bar_columns, styles);
    for (std::size_t i = 0; i < bar.size(); ++i) line.add(std::string(1, bar[i]), styles[i]);
    // The costliest parts that are no work, in words.
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < kStepLetters.size(); ++i)
      if (kStepLetters[i].concern == Concern::waiting && parts.share[i] >= 0.01) order.push_back(i);
    std::ranges::sort(
        order, [&](std::size_t a, std::size_t b) { return parts.share[a] > parts.share[b]; });
    std::string words;
    for (const std::size_t i : order)
      words += fmt::format("  {} {:.0f}%", kStepLetters[i].words, parts.share[i] * 100);
    line.add(words_columns > 0 ? words : "");
    lines.push_back(std::move(line.fit(scene.layout.columns)));
  }
  return lines;
}

}  // namespace lockstep
