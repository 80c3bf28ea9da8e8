// Pictures of what the GPUs did: rows of columns, made from the timeline by averaging.
#pragma once

#include <vector>

#include "lockstep/report.hpp"
#include "lockstep/signals.hpp"
#include "lockstep/timeline.hpp"

namespace lockstep {

// Busy, power and memory over the whole run; and, where turns or steps are too short for that, the
// newest stretch of a few periods from the power samples, first.
std::vector<LanePicture> lane_pictures(const Timeline& timeline,
                                       const std::optional<TurnSignals>& turns, double until_ms);

}  // namespace lockstep
