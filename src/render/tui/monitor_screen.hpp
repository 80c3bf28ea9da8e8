// The whole live screen as a picture: what is known and what was chosen in, rows of words out. Time
// is passed in with what is known.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "monitor/monitored.hpp"
#include "render/tui/layout.hpp"
#include "render/tui/monitor_state.hpp"
#include "render/tui/style.hpp"

namespace lockstep {

struct Size {
  int columns = 80;
  int rows = 24;

  bool operator==(const Size&) const = default;
};

// What lies over the screen.
struct Window {
  std::string title;
  std::vector<Line> lines;
  int scroll = 0;
  bool fills = false;  // as much of the screen as there is

  // Rows of it that a screen of so many rows shows.
  int visible(int rows) const { return std::max(1, rows - (fills ? 2 : 4)); }
  int last_scroll(int rows) const {
    return std::max(0, static_cast<int>(lines.size()) - visible(rows));
  }
};

// One lane: a bar a column, over the blanks that its rows leave for it. Kept apart from the rows
// because they are most of the screen and hardly any of them changes from one frame to the next.
struct LaneStrip {
  struct Bar {
    std::uint8_t eighths = 0;  // of a row, over all rows of the lane; kNone, kGap: no bar
    Tone tone = Tone::plain;
    bool inverted = false;

    bool operator==(const Bar&) const = default;
  };
  static constexpr std::uint8_t kNone = 255;  // before the first reading, or after the last
  static constexpr std::uint8_t kGap = 254;   // a reading was due

  int x = 0;
  int y = 0;  // of its topmost row
  int rows = 1;
  std::vector<Bar> bars;
};

struct Frame {
  Size size;
  std::vector<Line> rows;
  std::vector<LaneStrip> lanes;
  std::optional<Window> window;
  Theme theme;
  bool ascii = false;
  Layout layout;  // how it lay, for the mouse
};

// `explain` gives the page of a finding; none where there are no pages.
Frame draw_monitor(const Monitored& seen, const MonitorState& state, Size size,
                   std::string_view (*explain)(FindingCode) = nullptr);

}  // namespace lockstep
