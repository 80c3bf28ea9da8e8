// Which stretch of time the lanes show, column by column.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "monitor/monitored.hpp"
#include "render/tui/monitor_state.hpp"

namespace lockstep {

// What a column may stand for. The finest is the driver's power sample; the coarsest shows half a
// day on 100 columns.
inline constexpr std::array<double, 13> kColumnMs = {
    20, 50, 100, 200, 500, 1000, 2000, 5000, 10'000, 30'000, 60'000, 120'000, 300'000};

struct TimeView {
  double right_ms = 0;  // end of the last column
  double column_ms = 200;
  int columns = 0;
  bool follows = true;  // the right edge is the present

  double left_ms() const { return right_ms - column_ms * columns; }
  double start_of(int column) const { return left_ms() + column_ms * column; }
  // The column of a moment; may lie outside.
  int column_of(double t_ms) const;
};

TimeView time_view(const Monitored& seen, const MonitorState& state, int columns);

// The moment that is looked at: the cursor's, else the right edge's, else now.
double looked_at_ms(const Monitored& seen, const MonitorState& state);

// The next finer or coarser column.
double finer(double column_ms);
double coarser(double column_ms);

// "200 ms", "2 min".
std::string column_words(double column_ms);

// "1:02.3", "2:05:07": time since the start of the watch or the file.
std::string time_code(double ms, double column_ms = 1000);
// "12 s", "3 min 20 s" before now.
std::string ago(double ms);
// "90", "1:30", "1:02:03", "90s" as milliseconds; nothing when it is none of these.
std::optional<double> parse_time_code(const std::string& text);

}  // namespace lockstep
