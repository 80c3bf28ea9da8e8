// What the parts of a model take of a step, as probes measured them in a few steps.
#pragma once

#include <vector>

#include "lockstep/signals.hpp"
#include "lockstep/timeline.hpp"

namespace lockstep {

// In the model's order, the whole first.
std::vector<ModuleTime> module_times(const std::vector<FactAt>& facts);

}  // namespace lockstep
