// What NCCL's own count of its communicators says: that ranks work together, or that one of them
// does not come.
#pragma once

#include <optional>
#include <vector>

#include "lockstep/device_signals.hpp"
#include "lockstep/timeline.hpp"

namespace lockstep {

// `pids`: only communicators in which one of them is; empty: all.
std::optional<CommunicatorSignals> communicator_signals(const std::vector<CensusAt>& looks,
                                                        const std::vector<int>& pids);

}  // namespace lockstep
