#include "sources/nvml/power_runs.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep {

std::vector<PowerSamples> equally_spaced_runs(std::vector<TimedPower> samples, std::chrono::nanoseconds started_unix,
                                              std::uint64_t& last_seen_us) {
  // The driver's ring may hand them out in any order.
  std::sort(samples.begin(), samples.end(), [](const auto& a, const auto& b) { return a.unix_us < b.unix_us; });
  samples.erase(std::unique(samples.begin(), samples.end(),
                            [](const auto& a, const auto& b) { return a.unix_us == b.unix_us; }),
                samples.end());
  if (samples.empty()) return {};

  std::vector<double> spacings_ms;
  for (std::size_t i = 1; i < samples.size(); ++i)
    spacings_ms.push_back(static_cast<double>(samples[i].unix_us - samples[i - 1].unix_us) / 1e3);
  double spacing_ms = static_cast<double>(samples.front().unix_us - std::min(last_seen_us, samples.front().unix_us)) / 1e3;
  if (!spacings_ms.empty()) {
    const auto middle = spacings_ms.begin() + static_cast<std::ptrdiff_t>(spacings_ms.size() / 2);
    std::nth_element(spacings_ms.begin(), middle, spacings_ms.end());
    spacing_ms = *middle;
  }
  if (spacing_ms <= 0) spacing_ms = 20;  // one lone sample at the very start: an H200's spacing

  const auto t_ms = [&](std::uint64_t unix_us) {
    return (static_cast<double>(unix_us) - static_cast<double>(started_unix.count()) / 1e3) / 1e3;
  };
  std::vector<PowerSamples> runs;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const double gap_ms = i == 0 ? 0 : static_cast<double>(samples[i].unix_us - samples[i - 1].unix_us) / 1e3;
    if (i == 0 || gap_ms > 1.5 * spacing_ms) runs.push_back({{}, spacing_ms, t_ms(samples[i].unix_us)});
    runs.back().milliwatts.push_back(samples[i].milliwatts);
  }
  last_seen_us = samples.back().unix_us;
  return runs;
}

}  // namespace lockstep
