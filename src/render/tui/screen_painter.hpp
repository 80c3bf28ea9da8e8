// Paints frames into cells, touching only the rows that changed: most of the screen is the same ten
// times a second.
#pragma once

#include <ftxui/screen/screen.hpp>
#include <optional>
#include <vector>

#include "render/tui/monitor_screen.hpp"
#include "render/tui/terminal/screen_writer.hpp"

namespace lockstep {

class ScreenPainter {
 public:
  // The cells after this frame, and where they may not be what they were.
  struct Painted {
    const ftxui::Screen& cells;
    std::vector<CellRun> changed;
  };
  Painted paint(Frame frame);
  // The next frame is painted whole.
  void forget() { shown_.reset(); }

 private:
  void paint_lanes(const Frame& frame, bool whole, std::vector<CellRun>& changed);

  std::optional<Frame> shown_;
  std::optional<ftxui::Screen> cells_;
};

}  // namespace lockstep
