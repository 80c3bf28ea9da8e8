// Settings from a report of `lockstep diagnose`, and what becomes of settings that were advised.
#pragma once

#include <string>
#include <vector>

#include "launch/arguments/launch_settings.hpp"
#include "lockstep/launch_advice.hpp"
#include "lockstep/result.hpp"

namespace lockstep {

// What the findings of a report say about the start: variables to set or to take out, ranks to
// start.
Result<std::vector<LaunchAdvice>> advice_in_report(const std::string& report_json);

// Puts it into the settings, but where the user's own flags say otherwise. What was taken, in words
// for the user.
std::vector<std::string> take_advice(const std::vector<LaunchAdvice>& advice,
                                     LaunchSettings& settings);

}  // namespace lockstep
