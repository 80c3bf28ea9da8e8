// Finding codes as people type them: --only P101,D201.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "lockstep/finding.hpp"
#include "lockstep/result.hpp"

namespace lockstep {

Result<std::set<FindingCode>> codes_of(const std::vector<std::string>& words);

}  // namespace lockstep
