// Steps of traces without a GPU, by what the training thread did.
#pragma once

#include <vector>

#include "lockstep/timeline.hpp"
#include "rows/rank_trace.hpp"

namespace lockstep {

// Steps only, on every rank: where nothing of a GPU was recorded the training thread's own time is
// what a step is made of.
Timeline host_timeline(const std::vector<RankTrace>& traces);

}  // namespace lockstep
