// Where a step's time goes, as a tree: parts, lines of the training loop, functions, lines. What a
// flame graph is drawn from.
#pragma once

#include <string>
#include <vector>

#include "lockstep/signals.hpp"

namespace lockstep {

struct FlameFrame {
  std::string name;
  StepPart part = StepPart::other;
  double share = 0;  // of the steps' time, mean of the ranks
  std::string file;  // empty: no line of code
  int line = 0;
  std::vector<FlameFrame> within;  // largest first
};

// The whole step. Without the lines that probes name it has parts alone.
FlameFrame flame_tree(const StepSignals& steps);

// How many frames lie on each other at most.
std::size_t depth_of(const FlameFrame& frame);

}  // namespace lockstep
