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

}  // namespace lockstep
