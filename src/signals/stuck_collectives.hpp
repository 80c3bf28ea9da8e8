// Which collectives a hung job stands in, and who is missing from each.
#pragma once

#include <vector>

#include "lockstep/flight_recorder.hpp"

namespace lockstep {

// One for each group of ranks that stands: its first collective that is not done on all of them.
std::vector<StuckCollective> stuck_collectives(const std::vector<FlightDump>& dumps);

}  // namespace lockstep
