// A run of GPUs as functions of time, seen as the driver would show it: utilization windows and
// power samples.
#pragma once

#include <functional>
#include <vector>

#include "lockstep/timeline.hpp"

namespace lockstep::testing {

// What a GPU does at a moment (ms).
enum class Doing { nothing, working, spinning };
using Behaviour = std::function<Doing(double t_ms)>;

struct SimulationOptions {
  double seconds = 6;
  double tick_ms = 100;
  double window_ms = 200;
  bool power_samples = true;
  bool plain_power = true;
};

inline constexpr double kSimulatedLimitMw = 400'000;
inline constexpr double kSimulatedIdleMw = 60'000;
inline constexpr double kSimulatedWorkingMw = 360'000;
inline constexpr double kSimulatedSpinningMw = 120'000;

// GPUs 0, 1 ... with these behaviours, equal memory, and no processes.
Timeline simulate(const std::vector<Behaviour>& gpus, const SimulationOptions& options = {});

// Works while `phase` of the period lies below `duty`, beginning at `offset_ms`.
Behaviour working_part(double period_ms, double duty, double offset_ms = 0);
// The same, and spins in between instead of doing nothing.
Behaviour working_else_spinning(double period_ms, double duty, double offset_ms = 0);

// A process that holds GPUs.
ProcessSample process_on_gpus(int pid, const std::vector<int>& gpus);
ProcessSample rank_on_gpu(int rank, int world_size, int gpu);
void put_processes(Timeline& timeline, const ProcessTick& processes);

}  // namespace lockstep::testing
