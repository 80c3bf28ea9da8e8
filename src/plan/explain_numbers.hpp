// How the numbers of a plan come about, for --why.
#pragma once

#include <vector>

#include "lockstep/plan.hpp"
#include "plan/search.hpp"

namespace lockstep {

std::vector<ExplainedNumber> explain_numbers(const PlanRequest& request, const Footprint& footprint,
                                             const Candidate& chosen, const Plan& plan);

}  // namespace lockstep
