// A plan of patches as a report: the same findings and fixes as everywhere, with the diffs in them.
#pragma once

#include "fix/engine.hpp"
#include "lockstep/report.hpp"

namespace lockstep {

Report report_of_plan(const Project& project, const FixPlan& plan);

}  // namespace lockstep
