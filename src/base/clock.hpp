// The two clocks: one that only goes forward, one that the rest of the world shares.
#pragma once

#include <chrono>

namespace lockstep {

// Since an arbitrary start (CLOCK_MONOTONIC): for durations and for times within a run.
inline std::chrono::nanoseconds monotonic_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::steady_clock::now().time_since_epoch());
}

// Since 1970: for time stamps that meet other programs' and the driver's.
inline std::chrono::nanoseconds unix_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::system_clock::now().time_since_epoch());
}

inline double to_ms(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace lockstep
