// How long steps took, where a training log says so: "12.3 it/s", "elapsed time per iteration (ms):
// 6722.4", "Time 0.35 (0.36) Data 0.30 (0.31)".
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sources/log/step_line.hpp"

namespace lockstep {

// "step 12 | loss 3.1", "epoch 1 ...", "12.3 it/s": of a run that goes on.
bool tells_progress(const std::string& line);

// The lines of the form that most of them have. Empty: fewer than three of any.
std::vector<StepLine> step_lines(std::span<const std::string> lines);

}  // namespace lockstep
