// The settings beside batch and strategy, each with its reason.
#pragma once

#include <vector>

#include "lockstep/launch_advice.hpp"
#include "lockstep/plan.hpp"
#include "plan/plan_request.hpp"

namespace lockstep {

std::vector<PlannedSetting> choose_settings(const PlanRequest& request, const PlannedWay& way);

// What of these a script can be started with when nothing is known of it but the machine: for
// `lockstep launch --recommended`.
std::vector<LaunchAdvice> planned_launch(int cores, int ranks);

// The value of a setting in a plan; empty: it has none.
std::string setting_of(const Plan& plan, const std::string& name);

}  // namespace lockstep
