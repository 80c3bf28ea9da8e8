// Where a step's time goes, or a job's, as a tree: parts, lines of the training loop, functions,
// lines. What a flame graph is drawn from.
#pragma once

#include <string>
#include <vector>

#include "lockstep/signals.hpp"

namespace lockstep {

struct FlameFrame {
  std::string name;
  StepPart part = StepPart::other;
  double share = 0;  // of the whole, mean of the ranks
  std::string file;  // empty: no line of code
  int line = 0;
  std::vector<FlameFrame> within;  // largest first
};

struct FlameGraph {
  FlameFrame whole;
  double step_ms = 0;  // 0: it is of the time that was watched, and steps are not known
};

// Without the lines that probes name a step has parts alone.
FlameGraph flame_graph(const StepSignals& steps);
// Of stacks that were taken from outside: all functions, from the program's own start inwards.
FlameGraph flame_graph(const StackProfile& profile);

// How many frames lie on each other at most.
std::size_t depth_of(const FlameFrame& frame);

}  // namespace lockstep
