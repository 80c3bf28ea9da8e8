// How a job's GPUs spent the time, as far as readings tell: working, waiting in a kernel, idle.
#pragma once

#include "lockstep/signals.hpp"
#include "lockstep/timeline.hpp"
#include "signals/activity.hpp"

namespace lockstep {

// Sets `time` of each member and of the job.
void add_time_account(const Timeline& timeline, const Activity& activity, JobSignals& job);

}  // namespace lockstep
