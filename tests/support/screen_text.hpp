// A frame of the live screen as text that can be read, compared and kept.
#pragma once

#include <ftxui/screen/screen.hpp>
#include <string>

#include "render/tui/monitor_screen.hpp"

namespace lockstep::testing {

// The rows, without the blanks at their ends.
std::string text_of(const ftxui::Screen& screen);
// The same with a letter for each cell's tone: g good, w waiting, p problem, a accent, f faint,
// capital where inverted.
std::string tones_of(const ftxui::Screen& screen);
// A whole frame, painted.
ftxui::Screen painted(Frame frame);

}  // namespace lockstep::testing
