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

// What is carried from one read of a GPU's buffer to the next.
struct PowerBufferState {
  std::uint64_t last_seen_us = 0;
  double spacing_ms = 20;  // an H200's, until enough samples have shown the driver's own
  bool spacing_seen = false;
};

// At least one run for at least one sample. A run ends where the driver skipped a sample, so that
// no sample is given another's time. `state` is advanced past the newest sample.
std::vector<PowerSamples> equally_spaced_runs(std::vector<TimedPower> samples,
                                              std::chrono::nanoseconds started_unix,
                                              PowerBufferState& state);

}  // namespace lockstep
