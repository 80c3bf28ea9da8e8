// How the training is set up, from the facts that probes told.
#pragma once

#include <optional>
#include <vector>

#include "lockstep/signals.hpp"

namespace lockstep {

std::optional<ProbeSettings> probe_settings(const std::vector<FactAt>& facts);

}  // namespace lockstep
