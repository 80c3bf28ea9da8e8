// What the GPUs did in the steps that count, by their own records.
#pragma once

#include <optional>
#include <vector>

#include "lockstep/device_signals.hpp"
#include "lockstep/timeline.hpp"

namespace lockstep {

// Nothing: no step has such records. `with_warm_up`: the same steps and those that do not count,
// some of which nobody disturbed.
std::optional<DeviceSignals> device_signals(const std::vector<StepAt>& steps,
                                            const std::vector<StepAt>& with_warm_up = {});

// Records of some steps tell nothing of an evaluation between them; how busy the GPU was over all
// steps does. Both are shares of the steps' time.
void weigh_in_evaluation(double evaluation, double busy, RankDevices& rank);

// When a host that is ahead of its GPU begins to wait for a batch, the GPU still works on what it
// was given. Records of the steps between two waits do not show that; how busy it was does.
void weigh_in_work_behind_waits(double busy, RankDevices& rank);

}  // namespace lockstep
