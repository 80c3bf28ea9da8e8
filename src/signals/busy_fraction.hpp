// How busy each GPU was over a run, and what it drew: means in which every reading counts for the time it stands for.
#pragma once

#include "lockstep/signals.hpp"
#include "lockstep/timeline.hpp"

namespace lockstep {

Signals gpu_means(const Timeline& timeline);

}  // namespace lockstep
