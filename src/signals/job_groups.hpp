// Which processes and GPUs belong together.
//
// Processes are joined by what launched them: one master address and port, one launcher, one parent
// that spawned them. GPUs whose processes are not listed are joined by likeness only, and the job
// says so (JobOrigin).
#pragma once

#include <vector>

#include "lockstep/signals.hpp"
#include "lockstep/timeline.hpp"

namespace lockstep {

// Jobs with gpus, pids, ranks, processes and what the process map says; nothing measured over time.
std::vector<JobSignals> job_groups(const Timeline& timeline, const std::vector<GpuSignals>& gpus);

// GPUs that hold no process and next to no memory, and never ran anything.
std::vector<int> free_gpus(const std::vector<GpuSignals>& gpus,
                           const std::vector<JobSignals>& jobs);

}  // namespace lockstep
