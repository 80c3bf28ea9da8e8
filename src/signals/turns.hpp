// How lanes lie to each other: in step, in turns, staggered, or by chance.
#pragma once

#include <optional>

#include "signals/lanes.hpp"

namespace lockstep {

// Nothing with less than two lanes, or with less than 4 moments at which all are known.
std::optional<TurnSignals> turn_signals(const Lanes& lanes, LaneKind kind, double resolution_ms);

// The period of what repeats in the lanes, and how clearly it does.
struct Period {
  double ms = 0;
  double strength = 0;  // height of the autocorrelation's peak
};
std::optional<Period> period_of(const Lanes& lanes);

}  // namespace lockstep
