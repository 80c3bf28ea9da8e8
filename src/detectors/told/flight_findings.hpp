// C406 and C407 from a flight recorder's dumps.
//
// Why it shows: a collective has the same number on all ranks of its group. Ranks that stand in
// number 57 wait for those whose last is
// 56. Where most have not called it, the few that did are alone in a branch that the others do not
// take; where all have and the calls differ, they took different ones. Blind: ranks that wrote no
// dump; a collective that all have called and that still does not end stands in the network or in a
// GPU.
#pragma once

#include <vector>

#include "lockstep/finding.hpp"
#include "lockstep/flight_recorder.hpp"

namespace lockstep {

std::vector<Finding> find_in_flight_dumps(const std::vector<StuckCollective>& stuck);

}  // namespace lockstep
