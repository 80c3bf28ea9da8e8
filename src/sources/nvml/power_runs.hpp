// Turns the driver's time-stamped power samples into equally spaced runs on the recording's clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "lockstep/sample.hpp"

namespace lockstep {

struct TimedPower {
  std::uint64_t unix_us = 0;
  std::uint32_t milliwatts = 0;
};

// At least one run for at least one sample. A run ends where the driver skipped a sample, so that no
// sample is given another's time. `last_seen_us` is advanced past the newest sample.
std::vector<PowerSamples> equally_spaced_runs(std::vector<TimedPower> samples, std::chrono::nanoseconds started_unix,
                                              std::uint64_t& last_seen_us);

}  // namespace lockstep
