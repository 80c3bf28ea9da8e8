// Starts the ranks of one machine, watches them, ends them together, starts them again where that
// is wanted.
#pragma once

#include <functional>

#include "launch/arguments/launch_settings.hpp"
#include "lockstep/result.hpp"

namespace lockstep {

// What is done beside the ranks, each in a process of its own: a driver may be slow, or stuck.
struct Beside {
  std::function<void(int guard)> look_at_gpus;  // says who else holds the GPUs
  // `ended` becomes readable when the ranks have ended
  std::function<void(int guard, int ended)> watch;
};

// The exit code: 0 when every rank of the last attempt ended with 0, else the root cause's own,
// 128+n for a signal. The calling process must have one thread.
Result<int> run_launch(LaunchSettings settings, const Beside& beside);

}  // namespace lockstep
