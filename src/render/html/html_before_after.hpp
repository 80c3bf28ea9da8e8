// One page with both runs: the speedup, the lanes one above the other, the checklists, the findings
// that were fixed.
#pragma once

#include <string>

#include "lockstep/before_after.hpp"

namespace lockstep {

std::string before_after_html(const BeforeAfter& runs);

}  // namespace lockstep
