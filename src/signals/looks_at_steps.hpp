// What the main thread did during each part and line of the steps: whether it ran, waited for a
// core, or was blocked, and on what.
#pragma once

#include "lockstep/signals.hpp"
#include "lockstep/timeline.hpp"

namespace lockstep {

// Of the steps that the signals are of, by the looks at threads of the same moments.
void add_main_thread(const Timeline& timeline, StepSignals& signals);

}  // namespace lockstep
