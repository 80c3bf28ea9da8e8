// Rules for starting any training script well: what `lockstep launch --recommended` adds.
#pragma once

#include <vector>

#include "lockstep/launch_advice.hpp"

namespace lockstep {

std::vector<LaunchAdvice> recommended_launch(const LaunchSituation& situation);

}  // namespace lockstep
