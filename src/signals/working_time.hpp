// When a job trains: from the end of its start-up to the last sign of work.
#pragma once

#include <vector>

#include "lockstep/signals.hpp"
#include "lockstep/timeline.hpp"

namespace lockstep {

// Sets `active`, `from_ms` and `to_ms` of the job.
void find_working_time(const Timeline& timeline, JobSignals& job);

std::vector<const GpuTrack*> tracks_of(const Timeline& timeline, const std::vector<int>& gpus);

}  // namespace lockstep
