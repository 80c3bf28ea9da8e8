// Which lines of the user's code the steps' time goes to.
#pragma once

#include <vector>

#include "lockstep/signals.hpp"

namespace lockstep {

// Steps with detail only. The costliest first.
std::vector<PlaceSignals> places_of(const std::vector<const StepMark*>& steps);

}  // namespace lockstep
