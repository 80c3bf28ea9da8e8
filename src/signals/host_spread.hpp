// A job over several machines: what each of them does, and whether they work together or one after
// the other.
#pragma once

#include <optional>

#include "lockstep/signals.hpp"
#include "signals/activity.hpp"

namespace lockstep {

// Nothing where the job's GPUs lie in one machine. `gpus`: of all machines, for means that are no
// matter of time.
std::optional<HostSpread> host_spread(const Activity& activity, const JobSignals& job,
                                      const std::vector<GpuSignals>& gpus);

}  // namespace lockstep
