// From a request to a plan: the best way, the others, more and fewer GPUs, what to do when memory
// is short, what is doubtful.
#pragma once

#include "lockstep/plan.hpp"
#include "lockstep/result.hpp"
#include "plan/search.hpp"

namespace lockstep {

// An error where the request contradicts itself. A model that fits nowhere is a plan, too: it says
// by how much.
Result<Plan> make_plan(const PlanRequest& request);

// A setting with its numbers, as plans show it.
PlannedWay planned_way(const PlanRequest& request, const Candidate& candidate);

}  // namespace lockstep
