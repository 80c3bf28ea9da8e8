// All steps on one axis: what the steps of a run came to, one after another.
#pragma once

#include <vector>

#include "lockstep/signals.hpp"
#include "lockstep/timeline.hpp"

namespace lockstep {

// Of each rank. `counted`: those that the other figures are made of.
std::vector<RankCourse> step_course(const std::vector<StepAt>& steps,
                                    const std::vector<StepAt>& counted);

}  // namespace lockstep
