// What Python stacks, taken from outside, add up to.
#pragma once

#include <optional>

#include "lockstep/signals.hpp"
#include "lockstep/timeline.hpp"

namespace lockstep {

// Of the job's working time. Nothing: fewer stacks than a share can be told by.
std::optional<StackProfile> stack_profile(const Timeline& timeline, const JobSignals& job);

}  // namespace lockstep
