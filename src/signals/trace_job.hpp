// The signals of a trace: its ranks are one job, whose GPUs' own records say what they did.
#pragma once

#include "lockstep/signals.hpp"
#include "lockstep/timeline.hpp"

namespace lockstep {

Signals signals_of_trace(const Timeline& timeline, TraceSignals trace);

}  // namespace lockstep
