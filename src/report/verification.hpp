// From the runs of a verification to its numbers.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "lockstep/timeline.hpp"
#include "lockstep/verification.hpp"

namespace lockstep {

// What one run shows of its speed, by each basis that it has.
struct RunSpeed {
  std::optional<double> samples_per_s;
  std::optional<double> batches_per_s;
  std::optional<double> gpu_work;  // GPUs that were busy, on average
  double seconds = 0;
};
// Steps of all ranks, without the first ones, which are slow for reasons of their own.
RunSpeed speed_of(const Timeline& timeline, double seconds);

// Runs by variant and round. The basis is the best that every run has.
SpeedBasis common_basis(const std::vector<std::vector<RunSpeed>>& runs);
// Whether steps are faster while whole runs take no less time: too short to be worth their start.
bool only_steps_gain(const Verification& verification);
// Whether the last version is proven to be faster than the first.
bool is_proven(const Verification& verification);
double speed_by(SpeedBasis basis, const RunSpeed& run);

// The ratio's interval from the logarithms of each round's ratio, by Student's t: rounds share what
// the machine was doing. With one round there is no interval: it reaches from nothing to
// everything.
Speedup speedup_between(std::span<const double> before, std::span<const double> after);

}  // namespace lockstep
