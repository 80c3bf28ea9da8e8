// Where the main threads' Python code was, by line, as stacks taken from outside tell it.
#pragma once

#include <vector>

#include "lockstep/signals.hpp"

namespace lockstep {

struct StackLine {
  StepPart part = StepPart::other;
  CodePlace place;
  double share = 0;
};

// Stacks that were found at the same line, most often seen first.
std::vector<StackLine> stack_lines(const StackProfile& profile);

}  // namespace lockstep
