// From rounds to rows: medians, speedups, efficiencies, and the words of caution that go with them.
#pragma once

#include "lockstep/bench.hpp"

namespace lockstep {

double median_of(std::vector<double> values);

// Fills in what follows from the rounds. Rows without a round stay as they are.
void summarise(BenchReport& report);

}  // namespace lockstep
