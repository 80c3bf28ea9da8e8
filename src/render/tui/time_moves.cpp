#include "render/tui/time_moves.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "render/tui/rank_rows.hpp"
#include "render/tui/time_view.hpp"

namespace lockstep {
namespace {

void keep_in_view(MonitorState& state, const Monitored& seen, int columns, double t_ms) {
  const TimeView now = time_view(seen, state, columns);
  if (!state.right_ms) state.right_ms = now.right_ms - now.column_ms / 2;
  if (t_ms < now.left_ms()) state.right_ms = t_ms + now.column_ms * (now.columns - 0.5);
  if (t_ms >= now.right_ms) state.right_ms = t_ms;
}

void zoom_to(MonitorState& state, const Monitored& seen, int columns, double column_ms) {
  const TimeView before = time_view(seen, state, columns);
  state.setup.column_ms = column_ms;
  state.zoomed = true;
  if (state.cursor_ms && state.right_ms) {
    const double columns_right = (before.right_ms - *state.cursor_ms) / before.column_ms;
    state.right_ms = std::min(*state.cursor_ms + columns_right * column_ms,
                              std::max(seen.now_ms(), *state.cursor_ms));
  }
  state.message = column_words(column_ms) + " a column";
  if (column_ms < 100) state.message += ": power comes every 20 ms, the other readings do not";
}

}  // namespace

void hold_or_follow(MonitorState& state, const Monitored& seen) {
  state.paused = !state.paused;
  if (state.paused) {
    if (!state.right_ms) state.right_ms = seen.now_ms();
    return;
  }
  state.right_ms.reset();
  state.cursor_ms.reset();
}

// The first press puts the cursor on the newest column; a moving picture would carry it away, so it
// stands still.
void move_cursor(MonitorState& state, const Monitored& seen, int columns, int by) {
  const TimeView now = time_view(seen, state, columns);
  if (!state.cursor_ms) {
    // the newest that was read
    state.cursor_ms = std::min(state.right_ms.value_or(seen.now_ms()), seen.history.newest_ms());
    if (by > 0) return;
    state.cursor_ms = *state.cursor_ms - (now.follows ? 0 : now.column_ms);
  } else {
    state.cursor_ms = *state.cursor_ms + by * now.column_ms;
  }
  const double oldest = std::min(seen.history.oldest_ms(), seen.history.newest_ms());
  state.cursor_ms = std::clamp(*state.cursor_ms, oldest, std::max(seen.now_ms(), oldest));
  keep_in_view(state, seen, columns, *state.cursor_ms);
}

void scroll_view(MonitorState& state, const Monitored& seen, int columns, int by) {
  const TimeView now = time_view(seen, state, columns);
  const double newest = seen.now_ms();
  const double oldest_right =
      seen.history.oldest_ms() + now.column_ms * std::max(1, now.columns / 2);
  const double right = state.right_ms.value_or(newest) + by * now.column_ms;
  if (right >= newest && !state.paused && !state.cursor_ms)
    state.right_ms.reset();
  else
    state.right_ms = std::clamp(right, std::min(oldest_right, newest), newest);
}

void zoom_in(MonitorState& state, const Monitored& seen, int columns) {
  zoom_to(state, seen, columns, finer(time_view(seen, state, columns).column_ms));
}
void zoom_out(MonitorState& state, const Monitored& seen, int columns) {
  zoom_to(state, seen, columns, coarser(time_view(seen, state, columns).column_ms));
}

void mark_moment(MonitorState& state, const Monitored& seen) {
  constexpr std::size_t kMostMarks = 100;
  if (state.marks.size() >= kMostMarks) {
    state.message = "100 marks are enough";
    return;
  }
  const double at = state.cursor_ms.value_or(seen.now_ms());
  state.marks.insert(std::ranges::upper_bound(state.marks, at), at);
  state.message = fmt::format("marked {}; n and N go from mark to mark",
                              time_code(at - seen.origin_ms(), state.setup.column_ms));
}

void go_to_mark(MonitorState& state, const Monitored& seen, int columns, int direction) {
  std::vector<double> places = state.marks;
  for (const EventAt& entry : seen.events) places.push_back(entry.t_ms);
  const double at = state.cursor_ms.value_or(seen.now_ms());
  std::optional<double> nearest;
  for (const double place : places) {
    if (direction < 0 ? place >= at - 1 : place <= at + 1) continue;
    if (!nearest || std::abs(place - at) < std::abs(*nearest - at)) nearest = place;
  }
  if (!nearest) {
    state.message =
        places.empty() ? "no mark or event yet; m makes a mark" : "no further mark or event";
    return;
  }
  state.cursor_ms = *nearest;
  for (const EventAt& entry : seen.events)
    if (entry.t_ms == *nearest) state.message = event_words(entry.event);
  keep_in_view(state, seen, columns, *nearest);
}

}  // namespace lockstep
