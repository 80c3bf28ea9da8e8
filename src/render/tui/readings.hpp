// Numbers of one GPU as the screen writes them, now or at the cursor.
#pragma once

#include <optional>
#include <string>

#include "monitor/monitored.hpp"

namespace lockstep {

// The quantities of one GPU at one moment: the newest readings, or what history holds of a past
// one.
struct Readings {
  std::optional<double> busy, sm, tensor, dram, power_mw, memory_bytes, temperature_c, clock_mhz,
      pcie_bytes_s, nvlink_bytes_s;
  ClockLimits limits;
  GpuState state = GpuState::unknown;
  // the driver does not answer, or the GPU is lost: these were the last good ones
  bool old = false;
};

Readings readings_now(const GpuNow& gpu, const Monitored& seen);
Readings readings_at(const GpuNow& gpu, const Monitored& seen, double from_ms, double to_ms);

// "98%", or "-" where there is none.
std::string percent_of(const std::optional<double>& fraction);
// "650/700W", "71/80G", "65C".
std::string power_of_limit(const Readings& readings, const GpuInfo& info);
std::string memory_of_total(const Readings& readings, const GpuInfo& info);
std::string temperature_of(const Readings& readings);
std::string limits_of(const ClockLimits& limits);

// 0..1 for a lane, by what the GPU can do at most; rates by `highest`, what the busiest link did.
std::optional<double> lane_value(Quantity quantity, const std::optional<double>& value,
                                 const GpuInfo& info, double highest);

}  // namespace lockstep
