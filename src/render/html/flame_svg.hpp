// A flame graph of a step's time, as one SVG file or within a page: no script, the numbers are in
// the titles.
#pragma once

#include <string>

#include "lockstep/signals.hpp"

namespace lockstep {

// A colour for each part of a step, for all pictures.
std::string_view part_color(StepPart part);

std::string flame_svg(const StepSignals& steps);

}  // namespace lockstep
