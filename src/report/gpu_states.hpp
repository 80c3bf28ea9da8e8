// The word beside each GPU: what it does at this moment, seen together with its job.
#pragma once

#include <vector>

#include "lockstep/gpu_state.hpp"
#include "lockstep/report.hpp"
#include "lockstep/timeline.hpp"

namespace lockstep {

// By heat or by the power brake. The power limit alone is none: a GPU at full load is at it.
bool is_throttled(const ClockLimits& limits);

// One for each GPU of the timeline, in its order, from the last second of it. `report` may be of a
// moment ago; without one only what each GPU shows by itself is said.
std::vector<GpuState> gpu_states(const Timeline& timeline, const Report* report);

}  // namespace lockstep
