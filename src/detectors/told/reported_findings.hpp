// What the lockstep on each machine found by itself, as its exporter told.
#pragma once

#include <vector>

#include "lockstep/detector.hpp"

namespace lockstep {

// Those that are not in `found` for the same GPUs already: the machine's own readings are finer,
// but its finding is the same one.
std::vector<Finding> reported_findings(const Signals& signals, const std::vector<Finding>& found);

}  // namespace lockstep
