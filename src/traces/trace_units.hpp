// Units and tolerances that all of the analysis of traces shares.
#pragma once

#include <cstdint>

namespace lockstep {

inline constexpr double kNsInMs = 1e6;
// the host's and the GPU's times agree within that
inline constexpr std::int64_t kClockSlackNs = 2'000;
inline constexpr double kPieceWorthShowing = 0.002;  // of a step

}  // namespace lockstep
