#include "render/tui/screen_painter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ftxui/dom/elements.hpp>
#include <iterator>
#include <utility>

#include "render/words/words.hpp"

namespace lockstep {
namespace {

ftxui::Element element_of(Window window, int rows, const Theme& theme) {
  const int visible = window.visible(rows);
  const int count = static_cast<int>(window.lines.size());
  const int first = std::clamp(window.scroll, 0, window.last_scroll(rows));
  std::string title = " " + window.title + " ";
  if (count > visible)
    title += fmt::format("{}-{} of {} ", first + 1, std::min(first + visible, count), count);
  if (window.fills) title += "(Esc closes) ";
  std::vector<Line> lines(
      std::make_move_iterator(window.lines.begin() + first),
      std::make_move_iterator(window.lines.begin() + std::min(first + visible, count)));
  auto body = element_of(std::move(lines), theme);
  auto framed = ftxui::window(ftxui::text(title), window.fills ? body | ftxui::flex : body);
  if (window.fills) return framed | ftxui::clear_under;
  return framed | ftxui::clear_under | ftxui::center;
}

std::string_view glyph_of(const LaneStrip::Bar& bar, int row_from_bottom) {
  if (bar.eighths == LaneStrip::kNone) return " ";
  if (bar.eighths == LaneStrip::kGap) return row_from_bottom == 0 ? "\u00B7" : " ";
  // nothing was done, and that is known
  if (bar.eighths == 0) return row_from_bottom == 0 ? "_" : " ";
  return kLaneBars[static_cast<std::size_t>(std::clamp(bar.eighths - 8 * row_from_bottom, 0, 8))];
}

// The label and the arrow after it.
bool starts_alike(const Line& a, const Line& b) {
  constexpr std::size_t kSpans = 2;
  for (std::size_t i = 0; i < kSpans; ++i) {
    if (i >= a.spans().size() || i >= b.spans().size()) return a.spans().size() == b.spans().size();
    if (a.spans()[i] != b.spans()[i]) return false;
  }
  return true;
}

// Whether a lane lies where it lay, so that only its bars can have changed.
bool same_place(const LaneStrip& a, const LaneStrip& b) {
  return a.x == b.x && a.y == b.y && a.rows == b.rows && a.bars.size() == b.bars.size();
}

}  // namespace

// Bars that changed, and all of those that lie elsewhere than before.
void ScreenPainter::paint_lanes(const Frame& frame, bool whole, std::vector<CellRun>& changed) {
  for (std::size_t i = 0; i < frame.lanes.size(); ++i) {
    const LaneStrip& lane = frame.lanes[i];
    const LaneStrip* const before =
        !whole && i < shown_->lanes.size() && same_place(lane, shown_->lanes[i]) ? &shown_->lanes[i]
                                                                                 : nullptr;
    for (int row = 0; row < lane.rows; ++row) {
      const int y = lane.y + lane.rows - 1 - row;
      CellRun& run = changed[static_cast<std::size_t>(y)];
      const bool row_is_new = before == nullptr;
      for (std::size_t column = 0; column < lane.bars.size(); ++column) {
        const LaneStrip::Bar& bar = lane.bars[column];
        if (!row_is_new && bar == before->bars[column]) continue;
        const int x = lane.x + static_cast<int>(column);
        draw_glyph(*cells_, x, y, glyph_of(bar, row),
                   {bar.eighths == 0 ? Tone::faint : bar.tone, false, bar.inverted}, frame.theme);
        run.include(x);
      }
    }
  }
}

ScreenPainter::Painted ScreenPainter::paint(Frame frame) {
  const int rows = frame.size.rows;
  const bool whole = !shown_ || shown_->size != frame.size ||
                     shown_->theme.colors != frame.theme.colors || shown_->ascii != frame.ascii ||
                     shown_->window || frame.window;
  if (!cells_ || cells_->dimx() != frame.size.columns || cells_->dimy() != rows)
    cells_.emplace(frame.size.columns, rows);
  std::vector<CellRun> changed;
  for (int y = 0; y < rows; ++y) changed.push_back({y, 0, 0});
  // Where a lane stays where it was, what stands beside it changes without it.
  std::vector<const LaneStrip*> kept(static_cast<std::size_t>(rows), nullptr);
  for (std::size_t i = 0; !whole && i < frame.lanes.size() && i < shown_->lanes.size(); ++i)
    if (const LaneStrip& lane = frame.lanes[i]; same_place(lane, shown_->lanes[i]))
      for (int y = lane.y; y < lane.y + lane.rows; ++y) kept[static_cast<std::size_t>(y)] = &lane;
  for (int y = 0; y < rows; ++y) {
    const auto row = static_cast<std::size_t>(y);
    if (!whole && shown_->rows[row] == frame.rows[row]) continue;
    const LaneStrip* const lane = kept[row];
    const int lane_end = lane != nullptr ? lane->x + static_cast<int>(lane->bars.size()) : 0;
    draw_row(*cells_, frame.rows[row], y, frame.theme, lane != nullptr ? lane->x : 0, lane_end);
    const bool label_changed = lane == nullptr || !starts_alike(shown_->rows[row], frame.rows[row]);
    changed[row] = {y, label_changed ? 0 : lane_end, frame.size.columns};
  }
  paint_lanes(frame, whole, changed);
  if (frame.window) {
    // A window is framed by FTXUI over the rows; its own cells are cleared first.
    auto element = element_of(std::move(*frame.window), rows, frame.theme);
    ftxui::Render(*cells_, element);
    frame.window.emplace();
  }
  std::erase_if(changed, [](const CellRun& run) { return run.empty(); });
  if (frame.ascii)
    for (const CellRun& run : changed) make_ascii(*cells_, run.y);
  shown_ = std::move(frame);
  return {*cells_, std::move(changed)};
}

}  // namespace lockstep
