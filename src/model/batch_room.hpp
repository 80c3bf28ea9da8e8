// How far the batch of a running program could grow: from what it holds between steps, at its peak,
// and what its GPU has.
#pragma once

#include <optional>

namespace lockstep {

// Times the batch of a pass: 2 means that twice the samples would fit. Nothing where the numbers
// contradict each other.
std::optional<double> batch_room(double states_bytes, double peak_bytes, double total_bytes);

}  // namespace lockstep
