// What the GPUs did in the steps that count, by their own records.
#pragma once

#include <optional>
#include <vector>

#include "lockstep/device_signals.hpp"
#include "lockstep/timeline.hpp"

namespace lockstep {

// Nothing: no step has such records.
std::optional<DeviceSignals> device_signals(const std::vector<StepAt>& steps);

}  // namespace lockstep
