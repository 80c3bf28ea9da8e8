// Moving about in time: what the picture shows, where the cursor stands, from mark to mark.
#pragma once

#include "monitor/monitored.hpp"
#include "render/tui/monitor_state.hpp"

namespace lockstep {

// Holds the picture where it is, or lets it follow the present again.
void hold_or_follow(MonitorState& state, const Monitored& seen);
// `columns`: of the lanes, as they lie now; so in all that follow.
void move_cursor(MonitorState& state, const Monitored& seen, int columns, int by);
void scroll_view(MonitorState& state, const Monitored& seen, int columns, int by);
// About the cursor where there is one, else about the right edge.
void zoom_in(MonitorState& state, const Monitored& seen, int columns);
void zoom_out(MonitorState& state, const Monitored& seen, int columns);
void mark_moment(MonitorState& state, const Monitored& seen);
// The nearest mark or event before (-1) or after (1).
void go_to_mark(MonitorState& state, const Monitored& seen, int columns, int direction);

}  // namespace lockstep
