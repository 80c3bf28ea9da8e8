// All signals of a timeline.
#pragma once

#include "lockstep/signals.hpp"
#include "lockstep/timeline.hpp"

namespace lockstep {

Signals derive_signals(const Timeline& timeline);

}  // namespace lockstep
