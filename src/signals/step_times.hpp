// Where the steps' time went, from the marks of probes or of the trainer.
#pragma once

#include <optional>
#include <vector>

#include "lockstep/signals.hpp"
#include "lockstep/timeline.hpp"

namespace lockstep {

// The first steps of a training are not like the others; a trace is of later ones, and has few.
enum class WarmUp : std::uint8_t { leave_out, keep };

// Nothing when there are none.
std::optional<StepSignals> step_signals(const std::vector<StepAt>& steps,
                                        WarmUp warm_up = WarmUp::leave_out);

}  // namespace lockstep
