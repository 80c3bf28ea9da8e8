// What patches brought, for a person: every version with its speed and its gain, the sentence that sums it up, the commands that were run.
#pragma once

#include <string>

#include "lockstep/renderer.hpp"
#include "lockstep/report.hpp"

namespace lockstep {

std::string verification_text(const Verification& verification, const std::vector<CheckItem>& checklist, Colors colors);

}  // namespace lockstep
