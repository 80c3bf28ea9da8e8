// What each GPU did over a run, looked at by itself: means in which every reading counts for the
// time it stands for.
#pragma once

#include "lockstep/signals.hpp"
#include "lockstep/timeline.hpp"

namespace lockstep {

// Means only: what a look of a second can tell.
Signals gpu_means(const Timeline& timeline);

// Everything of GpuSignals.
std::vector<GpuSignals> gpu_signals(const Timeline& timeline);

// What people read of a GPU, of the time in which its job worked: neither start-up nor what was
// read after its end.
void tell_of_working_time(const Timeline& timeline, Signals& signals);

}  // namespace lockstep
