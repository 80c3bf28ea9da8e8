// Where the steps' time went, from the marks of probes or of the trainer.
#pragma once

#include <optional>
#include <vector>

#include "lockstep/signals.hpp"
#include "lockstep/timeline.hpp"

namespace lockstep {

// Nothing when there are none.
std::optional<StepSignals> step_signals(const std::vector<StepAt>& steps);

}  // namespace lockstep
