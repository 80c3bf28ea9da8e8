// Puts what the code says beside what was measured: each raises the confidence of the other, and
// the fixes get their diffs.
#pragma once

#include <set>
#include <span>
#include <vector>

#include "lockstep/report.hpp"

namespace lockstep {

// What to look for in code where these were measured: themselves, and what may be behind them.
std::set<FindingCode> to_look_for_in_code(std::span<const FindingCode> measured);

void join_code_findings(Report& report, const Report& code, const std::vector<int>& pids);

}  // namespace lockstep
