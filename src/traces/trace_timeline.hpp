// The GPUs' busy time and the steps of traces, as a timeline.
#pragma once

#include <vector>

#include "lockstep/timeline.hpp"
#include "traces/rank_view.hpp"

namespace lockstep {

Timeline trace_timeline(const std::vector<RankView>& ranks);

}  // namespace lockstep
