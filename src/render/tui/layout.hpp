// Where everything lies on a screen of a given size: readable with 8 GPUs at 80x24, useful at
// 40x12.
#pragma once

#include <array>
#include <cstdint>

#include "monitor/monitored.hpp"
#include "render/tui/monitor_state.hpp"

namespace lockstep {

inline constexpr int kLeastColumns = 40;
inline constexpr int kLeastRows = 12;

// Rows of the screen: [y, y + height).
struct Band {
  int y = 0;
  int height = 0;

  bool shown() const { return height > 0; }
  bool contains(int row) const { return row >= y && row < y + height; }
};

struct Layout {
  int columns = 0;
  int rows = 0;
  Band title;
  Band verdict;
  Band axis;  // names of the columns beside the lanes, and times
  Band lanes;
  int lane_rows = 1;  // of one GPU
  int gpus_shown = 0;
  int first_gpu = 0;  // the topmost one shown
  // by Panel; gpus is `lanes`; the first row of the others is their heading
  std::array<Band, kPanels> panels;
  Band footer;
  int last_scroll = 0;        // of the window that lies over the screen
  bool fold_workers = false;  // no rows of their own for loader workers: there is no room

  int lane_x = 6;  // after "GPU 0 "
  int lane_columns = 0;
  int numbers_x = 0;        // busy, SM, power, memory, temperature
  bool all_numbers = true;  // else busy and power alone
  int word_x = 0;
  int word_columns = 0;

  const Band& of(Panel panel) const {
    return panel == Panel::gpus ? lanes : panels[static_cast<std::size_t>(panel)];
  }
  bool too_small() const { return columns < kLeastColumns || rows < kLeastRows; }
};

Layout layout_of(const Monitored& seen, const MonitorState& state, int columns, int rows);

// The topmost row of a list that shows the selected one, with as little scrolling as can be.
constexpr int first_shown(int selected, int count, int visible) {
  const int most = count > visible ? count - visible : 0;
  const int wanted = selected - visible + 1;
  return wanted < 0 ? 0 : wanted > most ? most : wanted;
}

// Rows that one finding takes in a panel of this height: itself and its fix, where there is room
// for all of them.
constexpr int rows_a_finding(int count, const Band& band) {
  return 2 * count <= band.height - 1 ? 2 : 1;
}

// Ranks that have marked steps lately.
int step_rows(const Monitored& seen);

}  // namespace lockstep
