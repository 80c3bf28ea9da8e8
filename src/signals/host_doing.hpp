// What ranks did while their GPUs had nothing to do, from looks at their threads.
#pragma once

#include <optional>

#include "lockstep/signals.hpp"
#include "lockstep/timeline.hpp"

namespace lockstep {

// Nothing where too few looks were taken. `idle` is the share of the time in which the job's GPUs
// had nothing to do.
std::optional<HostDoing> host_doing(const Timeline& timeline, const JobSignals& job, double idle);

}  // namespace lockstep
