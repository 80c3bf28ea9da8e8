// What a few measured points say about more devices: Amdahl's law where the batch is divided, the
// exchange's terms where it grows.
#pragma once

#include <optional>
#include <span>

#include "lockstep/bench.hpp"

namespace lockstep {

// Over the rows of the curve; nothing where there is no point beyond one device.
std::optional<ScalingFit> fit_scaling(std::span<const BenchRow> rows);

}  // namespace lockstep
