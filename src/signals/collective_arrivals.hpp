// Who came when to the same collective, and how fast the data then moved.
#pragma once

#include <optional>
#include <vector>

#include "lockstep/collective.hpp"
#include "lockstep/device_signals.hpp"

namespace lockstep {

// Nothing: no collective was told. The first part, in which the ranks start up, does not count.
std::optional<CollectiveSignals> collective_signals(const std::vector<CollectiveCall>& calls);

// What nccl-tests multiplies a collective's speed by, so that it can be held against a link's: the
// same whatever the number of ranks.
double bus_factor(const std::string& operation, int ranks);

}  // namespace lockstep
