// What the GPUs did in the steps that count, by their own records.
#pragma once

#include <optional>
#include <vector>

#include "lockstep/device_signals.hpp"
#include "lockstep/timeline.hpp"

namespace lockstep {

// Nothing: no step has such records.
std::optional<DeviceSignals> device_signals(const std::vector<StepAt>& steps);

// Records of some steps tell nothing of an evaluation between them; how busy the GPU was over all
// steps does. Both are shares of the steps' time.
void weigh_in_evaluation(double evaluation, double busy, RankDevices& rank);

}  // namespace lockstep
