// Starts the ranks of one machine, watches them, ends them together, starts them again where that is wanted.
#pragma once

#include "launch/launch_settings.hpp"
#include "lockstep/result.hpp"

namespace lockstep {

// The exit code: 0 when every rank of the last attempt ended with 0, else the root cause's own, 128+n for a signal.
// The calling process must have one thread.
Result<int> run_launch(LaunchSettings settings);

}  // namespace lockstep
