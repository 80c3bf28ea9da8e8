#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "render/tui/panels.hpp"
#include "render/tui/readings.hpp"
#include "render/words/fleet_words.hpp"

namespace lockstep {
namespace {

// Where the other quantities' most is not known, the most seen in the picture is the measure of all
// lanes alike.
double highest_in_view(const Scene& scene, Quantity quantity) {
  double highest = 0;
  for (const GpuNow& gpu : scene.seen.gpus)
    for (int column = 0; column < scene.view.columns; ++column) {
      const double from = scene.view.start_of(column);
      highest = std::max(
          highest,
          scene.seen.history.cell(gpu.info.index, quantity, from, from + scene.view.column_ms)
              .value.value_or(0));
    }
  return highest;
}

bool needs_highest(const Scene& scene, Quantity quantity) {
  if (quantity == Quantity::pcie || quantity == Quantity::nvlink || quantity == Quantity::clock)
    return true;
  if (quantity == Quantity::power)
    return std::ranges::any_of(scene.seen.gpus,
                               [](const GpuNow& gpu) { return !gpu.info.power_limit_mw; });
  if (quantity == Quantity::memory)
    return std::ranges::any_of(scene.seen.gpus,
                               [](const GpuNow& gpu) { return !gpu.info.memory_total_bytes; });
  return false;
}

LaneStrip strip_of(const Scene& scene, const GpuNow& gpu, double highest) {
  const Quantity quantity = scene.state.setup.lanes;
  const int cursor = scene.state.cursor_ms ? scene.view.column_of(*scene.state.cursor_ms) : -1;
  LaneStrip strip;
  strip.x = scene.layout.lane_x;
  strip.rows = scene.layout.lane_rows;
  strip.bars.resize(static_cast<std::size_t>(scene.view.columns));
  for (int column = 0; column < scene.view.columns; ++column) {
    LaneStrip::Bar& bar = strip.bars[static_cast<std::size_t>(column)];
    bar = {LaneStrip::kNone, Tone::faint, column == cursor};
    const double from = scene.view.start_of(column);
    const double to = from + scene.view.column_ms;
    if (from > scene.seen.history.newest_ms() || to <= scene.seen.history.oldest_ms()) continue;
    const HistoryCell cell = scene.seen.history.cell(gpu.info.index, quantity, from, to);
    bar.eighths = LaneStrip::kGap;
    const auto value = lane_value(quantity, cell.value, gpu.info, highest);
    if (!value) continue;
    const Concern concern = name_of(cell.state).concern;
    bar.tone = concern == Concern::none ? Tone::plain : tone_of(concern);
    bar.eighths = static_cast<std::uint8_t>(std::lround(*value * 8 * strip.rows));
  }
  return strip;
}

void add_numbers(Line& line, const Scene& scene, const GpuNow& gpu, const Readings& readings) {
  const Layout& layout = scene.layout;
  const Style style{readings.old ? Tone::faint : Tone::plain, false, false};
  line.right(percent_of(readings.busy), 5, style);
  if (layout.all_numbers) {
    line.right(percent_of(readings.sm), 5, style);
    line.right(power_of_limit(readings, gpu.info), 9, style);
    line.right(memory_of_total(readings, gpu.info), 9, style);
    line.right(temperature_of(readings), 5, style);
  } else {
    line.right(readings.power_mw ? fmt::format("{:.0f}W", *readings.power_mw / 1e3) : "-", 6,
               style);
  }
  line.fit(layout.word_x - 2).add(readings.old ? "? " : "  ", style);
  const GpuStateName& name = name_of(readings.state);
  line.left(layout.word_columns >= 22 ? name.word : name.short_word, layout.word_columns,
            {tone_of(name.concern), name.concern == Concern::problem, false});
}

}  // namespace

Line axis_line(const Scene& scene) {
  const Layout& layout = scene.layout;
  const TimeView& view = scene.view;
  const Quantity quantity = scene.state.setup.lanes;
  std::vector<std::string> marks(static_cast<std::size_t>(view.columns), " ");
  const auto write = [&](int at, const std::string& text) {
    for (std::size_t i = 0; i < text.size() && at + static_cast<int>(i) < view.columns; ++i)
      if (at + static_cast<int>(i) >= 0)
        marks[static_cast<std::size_t>(at) + i] = std::string(1, text[i]);
  };
  const double origin = scene.seen.origin_ms();
  write(0, std::string(kQuantityNames[static_cast<std::size_t>(quantity)]) +
               (view.columns >= 24 ? fmt::format(", {} shown", ago(view.column_ms * view.columns))
                                   : ""));
  if (view.columns >= 24) {
    const bool behind = scene.seen.now_ms() - view.right_ms > view.column_ms;
    const std::string text = scene.seen.playback || scene.state.right_ms || behind
                                 ? time_code(view.right_ms - origin, view.column_ms)
                                 : std::string("now");
    write(view.columns - static_cast<int>(text.size()), text);
  }
  const auto put_mark = [&](double t_ms, const char* glyph) {  // never over words
    const int column = view.column_of(t_ms);
    if (column < 0 || column >= view.columns) return;
    std::string& place = marks[static_cast<std::size_t>(column)];
    if (place == " " || place == "!") place = glyph;
  };
  for (const EventAt& entry : scene.seen.events) put_mark(entry.t_ms, "!");
  for (const double mark : scene.state.marks) put_mark(mark, "\u25BC");

  const bool focused = scene.state.focus == Panel::gpus;
  const Style faint{focused ? Tone::accent : Tone::faint, false, false};
  Line line;
  line.left("", layout.lane_x);
  for (const std::string& mark : marks)
    line.add(mark, mark == "\u25BC" || mark == "!" ? Style{Tone::accent, true, false} : faint);
  line.right("busy", 5, faint);
  if (layout.all_numbers)
    line.right("SM", 5, faint)
        .right("power", 9, faint)
        .right("memory", 9, faint)
        .right("temp", 5, faint);
  else
    line.right("power", 6, faint);
  line.fit(layout.word_x)
      .left(scene.state.cursor_ms
                ? "at " + time_code(*scene.state.cursor_ms - origin, view.column_ms)
                : std::string("doing"),
            layout.word_columns, scene.state.cursor_ms ? Style{Tone::accent, true, false} : faint);
  return line.fit(layout.columns);
}

std::vector<LaneStrip> lane_strips(const Scene& scene) {
  const Layout& layout = scene.layout;
  const Quantity quantity = scene.state.setup.lanes;
  const double highest = needs_highest(scene, quantity) ? highest_in_view(scene, quantity) : 1;
  std::vector<LaneStrip> strips;
  const int last =
      std::min(layout.first_gpu + layout.gpus_shown, static_cast<int>(scene.seen.gpus.size()));
  for (int i = layout.first_gpu; i < last; ++i) {
    strips.push_back(strip_of(scene, scene.seen.gpus[static_cast<std::size_t>(i)], highest));
    strips.back().y = layout.lanes.y + (i - layout.first_gpu) * layout.lane_rows;
  }
  return strips;
}

std::vector<Line> lane_lines(const Scene& scene) {
  const Layout& layout = scene.layout;
  std::vector<Line> lines;
  const int last =
      std::min(layout.first_gpu + layout.gpus_shown, static_cast<int>(scene.seen.gpus.size()));
  for (int i = layout.first_gpu; i < last; ++i) {
    const GpuNow& gpu = scene.seen.gpus[static_cast<std::size_t>(i)];
    const bool selected = scene.state.focus == Panel::gpus && scene.state.selected[0] == i;
    const bool more_below = i + 1 == last && last < static_cast<int>(scene.seen.gpus.size());
    const bool more_above = i == layout.first_gpu && i > 0;
    const auto from_to = [&]() -> std::optional<std::pair<double, double>> {
      if (!scene.state.cursor_ms && !scene.state.right_ms) return std::nullopt;
      const double moment = std::min(scene.state.cursor_ms.value_or(*scene.state.right_ms),
                                     scene.seen.history.newest_ms());
      const double from = scene.view.start_of(scene.view.column_of(moment));
      return std::pair(from, from + scene.view.column_ms);
    }();
    const Readings readings = from_to
                                  ? readings_at(gpu, scene.seen, from_to->first, from_to->second)
                                  : readings_now(gpu, scene.seen);
    for (int row = layout.lane_rows - 1; row >= 0; --row) {
      Line line;
      const bool bottom = row == 0;
      line.left(bottom ? short_gpu_label(gpu.info) : "", layout.lane_x - 1,
                {selected ? Tone::accent : Tone::plain, selected, selected && bottom});
      line.add(bottom && more_below   ? "\u2193"
               : bottom && more_above ? "\u2191"
                                      : " ",
               {Tone::accent, true, false});
      line.fit(layout.lane_x + layout.lane_columns);
      if (bottom) add_numbers(line, scene, gpu, readings);
      lines.push_back(std::move(line.fit(layout.columns)));
    }
  }
  return lines;
}

}  // namespace lockstep
