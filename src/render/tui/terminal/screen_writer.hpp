// Turns a picture into the bytes that change the terminal from the one before to this one.
//
// Only cells that changed are written: people watch over ssh. Pure but for what it remembers of the
// last picture.
#pragma once

#include <algorithm>
#include <ftxui/screen/screen.hpp>
#include <optional>
#include <span>
#include <string>

namespace lockstep {

// Cells [from, to) of a row.
struct CellRun {
  int y = 0;
  int from = 0;
  int to = 0;

  bool empty() const { return from >= to; }
  void include(int x) {
    from = empty() ? x : std::min(from, x);
    to = std::max(to, x + 1);
  }
};

class ScreenWriter {
 public:
  // `changed`: where something may have changed. Empty when nothing did.
  std::string update(const ftxui::Screen& next, std::span<const CellRun> changed);
  // The terminal holds something else now: the next update writes every cell.
  void forget() { shown_.reset(); }

 private:
  std::optional<ftxui::Screen> shown_;
};

}  // namespace lockstep
