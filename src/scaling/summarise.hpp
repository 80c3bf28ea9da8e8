// From rounds to rows: medians, speedups, efficiencies, and the words of caution that go with them.
#pragma once

#include "lockstep/bench.hpp"

namespace lockstep {

// Taken by others: on two cores a speedup of 1.9x falls below 1.8x from there.
inline constexpr double kDisturbingShareOfCores = 0.075;

// Fills in what follows from the rounds. Rows without a round stay as they are.
void summarise(BenchReport& report);

}  // namespace lockstep
