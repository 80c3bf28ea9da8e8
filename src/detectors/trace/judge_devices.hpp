// What several GPUs of one process do together, by their own records.
#pragma once

#include "lockstep/detector.hpp"
#include "lockstep/trace_signals.hpp"

namespace lockstep {

JobVerdict judge_devices(const DeviceTurns& turns);

}  // namespace lockstep
