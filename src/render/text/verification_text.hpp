// What patches brought, for a person: every version with its speed and its gain, the sentence that
// sums it up, the commands that were run.
#pragma once

#include <string>

#include "lockstep/renderer.hpp"
#include "lockstep/report.hpp"

namespace lockstep {

// `only_steps`: the steps got faster, and the whole runs did not.
std::string verification_text(const Verification& verification, bool only_steps,
                              const std::vector<CheckItem>& checklist, Colors colors);

}  // namespace lockstep
