// How far the clocks of two machines lie apart, told by what happens on both at the same moment:
// ranks that train together end each step's exchange of gradients together.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace lockstep {

// Steps of one machine by their number: when they ended on its own clock, the middle one of its
// ranks, and how long they took.
struct StepEnds {
  std::map<std::int64_t, double> end_ms;
  double usual_ms = 0;  // length of a step
};

struct ClockOffset {
  double ahead_ms = 0;  // of the other clock at `from_ms`
  double drift_ppm = 0;
  double from_ms = 0;  // on the other clock
  double error_ms = 0;
  std::int64_t matched = 0;

  // What the first machine's clock shows when the other shows this.
  double aligned(double other_ms) const {
    return other_ms - ahead_ms - (other_ms - from_ms) * drift_ppm * 1e-6;
  }
};

// Nothing where too few steps are common, or where they do not end together: then the machines do
// not train together.
std::optional<ClockOffset> align_clocks(const StepEnds& first, const StepEnds& other);

}  // namespace lockstep
