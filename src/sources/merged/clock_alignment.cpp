#include "sources/merged/clock_alignment.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "base/median.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kFewestSteps = 8;
constexpr std::size_t kStepsForDrift = 60;
// in less, a rank that gets slower by a fraction of a millisecond looks like 50 ppm
constexpr double kShortestForDrift_ms = 60'000;
// Of a step: ends of ranks that wait for each other lie within a few hundredths; those of strangers
// anywhere.
constexpr double kTogether = 0.2;
// no clock is that wrong: a larger slope is a slower machine, not a faster clock
constexpr double kOrdinaryDrift_ppm = 500;

// How far values lie from a line, robustly: 1.48 times the median distance is a standard deviation
// of ordinary noise.
double spread(std::span<const double> differences) {
  std::vector<double> distances;
  for (const double difference : differences) distances.push_back(std::abs(difference));
  return 1.4826 * median(std::move(distances));
}

}  // namespace

std::optional<ClockOffset> align_clocks(const StepEnds& first, const StepEnds& other) {
  std::vector<double> at;
  std::vector<double> ahead;
  for (const auto& [index, end] : other.end_ms) {
    const auto same = first.end_ms.find(index);
    if (same == first.end_ms.end()) continue;
    at.push_back(end);
    ahead.push_back(end - same->second);
  }
  if (ahead.size() < kFewestSteps) return std::nullopt;
  ClockOffset offset;
  offset.matched = static_cast<std::int64_t>(ahead.size());
  offset.from_ms = at.front();
  offset.ahead_ms = median(ahead);
  const auto rest = [&] {
    std::vector<double> left;
    for (std::size_t i = 0; i < ahead.size(); ++i)
      left.push_back(at[i] - ahead[i] - offset.aligned(at[i]));
    return left;
  };
  offset.error_ms = spread(rest());
  if (ahead.size() >= kStepsForDrift) {
    const std::size_t third = ahead.size() / 3;
    const double early =
        median({ahead.begin(), ahead.begin() + static_cast<std::ptrdiff_t>(third)});
    const double late = median({ahead.end() - static_cast<std::ptrdiff_t>(third), ahead.end()});
    const double between = at[ahead.size() - third / 2 - 1] - at[third / 2];
    const double slope_ppm = between > 0 ? (late - early) / between * 1e6 : 0;
    // Worth a word only where it is more than the steps' own unrest.
    const double doubt = 3 * offset.error_ms / std::sqrt(static_cast<double>(third));
    if (between >= kShortestForDrift_ms && std::abs(late - early) > doubt &&
        std::abs(slope_ppm) <= kOrdinaryDrift_ppm) {
      offset.drift_ppm = slope_ppm;
      offset.ahead_ms = early - (at[third / 2] - offset.from_ms) * slope_ppm * 1e-6;
      offset.error_ms = spread(rest());
    }
  }
  const double step_ms = std::max(first.usual_ms, other.usual_ms);
  if (step_ms > 0 && offset.error_ms > kTogether * step_ms) return std::nullopt;
  return offset;
}

}  // namespace lockstep
