// Puts what the code says beside what was measured: each raises the confidence of the other, and
// the fixes get their diffs.
#pragma once

#include <vector>

#include "lockstep/report.hpp"

namespace lockstep {

void join_code_findings(Report& report, const Report& code, const std::vector<int>& pids);

}  // namespace lockstep
