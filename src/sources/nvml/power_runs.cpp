#include "sources/nvml/power_runs.hpp"

#include <algorithm>
#include <cmath>

#include "base/median.hpp"

namespace lockstep {
namespace {

// The driver's time stamps jitter: on an H200 under load a sample came up to 12 ms late, and the
// next one so much early. Spacings over several samples even that out; fewer samples say nothing.
constexpr std::size_t kReach = 8;

void learn_spacing(const std::vector<TimedPower>& samples, PowerBufferState& state) {
  if (samples.size() < 2 * kReach) return;
  std::vector<double> spacings_ms;
  for (std::size_t i = kReach; i < samples.size(); ++i)
    spacings_ms.push_back(static_cast<double>(samples[i].unix_us - samples[i - kReach].unix_us) /
                          1e3 / kReach);
  state.spacing_ms = middle_value(std::move(spacings_ms));
  state.spacing_seen = true;
}

// A sample that comes late by this share of the spacing, and whose successor is as late, follows a
// gap.
constexpr double kLate = 0.75;

}  // namespace

std::vector<PowerSamples> equally_spaced_runs(std::vector<TimedPower> samples,
                                              std::chrono::nanoseconds started_unix,
                                              PowerBufferState& state) {
  // The driver's ring may hand them out in any order.
  std::ranges::sort(samples, [](const auto& a, const auto& b) { return a.unix_us < b.unix_us; });
  const auto doubles = std::ranges::unique(samples, {}, &TimedPower::unix_us);
  samples.erase(doubles.begin(), doubles.end());
  if (samples.empty()) return {};

  learn_spacing(samples, state);
  const double spacing_ms = state.spacing_ms;

  const auto t_ms = [&](std::size_t i) {
    return (static_cast<double>(samples[i].unix_us) -
            static_cast<double>(started_unix.count()) / 1e3) /
           1e3;
  };
  std::vector<PowerSamples> runs;
  const auto lateness = [&](std::size_t i, std::size_t place) {
    return t_ms(i) - (*runs.back().first_ms + static_cast<double>(place) * spacing_ms);
  };
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (!runs.empty()) {
      const std::size_t place = runs.back().milliwatts.size();
      const bool last = i + 1 == samples.size();
      const bool gap = lateness(i, place) > kLate * spacing_ms &&
                       (last || lateness(i + 1, place + 1) > kLate * spacing_ms);
      if (gap) runs.push_back({{}, spacing_ms, t_ms(i)});
    } else {
      runs.push_back({{}, spacing_ms, t_ms(i)});
    }
    runs.back().milliwatts.push_back(samples[i].milliwatts);
  }
  state.last_seen_us = samples.back().unix_us;
  return runs;
}

}  // namespace lockstep
