// Steps that a log counts beside a clock: "2025-08-15 08:41:20,580 ... step=4", fairseq's
// "num_updates=290, ..., wall=1551".
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sources/log/step_line.hpp"

namespace lockstep {

// Empty: fewer than ten steps are counted, or no clock stands beside them.
std::vector<StepLine> stamped_steps(std::span<const std::string> lines);

}  // namespace lockstep
