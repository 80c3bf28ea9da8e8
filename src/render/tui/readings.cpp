#include "render/tui/readings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.hpp"

namespace lockstep {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

std::string gibibytes(double bytes) {
  const double value = bytes / kGiB;
  return value < 9.95 && value > 0 ? fmt::format("{:.1f}", value) : fmt::format("{:.0f}", value);
}

template <class T>
std::optional<double> last_of(const Reading<T>& reading) {
  const auto value = reading.last_value();
  return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

}  // namespace

Readings readings_now(const GpuNow& gpu, const Monitored& seen) {
  Readings readings;
  const GpuSample& latest = gpu.latest;
  readings.busy = last_of(latest.busy);
  readings.sm = last_of(latest.sm);
  readings.tensor = last_of(latest.tensor);
  readings.dram = last_of(latest.dram);
  readings.power_mw = last_of(latest.power_mw);
  readings.memory_bytes = last_of(latest.memory_used_bytes);
  readings.temperature_c = last_of(latest.temperature_c);
  readings.clock_mhz = last_of(latest.sm_clock_mhz);
  readings.limits = latest.limits.last_value().value_or(ClockLimits{});
  readings.state = gpu.lost ? GpuState::lost : gpu.state;
  const double now = seen.history.newest_ms();
  // and three ticks: a GPU that the kernel has put to sleep is not asked
  constexpr double kOldAfterMs = 3000;
  const bool silent = now - gpu.heard_ms > std::max(kOldAfterMs, 3 * seen.history.spacing_ms());
  readings.old = gpu.lost || seen.driver_gone || seen.silence.has_value() || silent;
  if (readings.old && !gpu.lost) readings.state = GpuState::no_reading;
  if (const auto recent = seen.history.look(gpu.info.index, now - 200, now + 1)) {
    readings.pcie_bytes_s = (*recent)[Quantity::pcie];
    readings.nvlink_bytes_s = (*recent)[Quantity::nvlink];
  }
  return readings;
}

Readings readings_at(const GpuNow& gpu, const Monitored& seen, double from_ms, double to_ms) {
  Readings readings;
  const auto moment = seen.history.look(gpu.info.index, from_ms, to_ms);
  if (!moment) return readings;
  readings.busy = (*moment)[Quantity::busy];
  readings.sm = (*moment)[Quantity::sm];
  readings.tensor = (*moment)[Quantity::tensor];
  readings.dram = (*moment)[Quantity::dram];
  readings.power_mw = seen.history.cell(gpu.info.index, Quantity::power, from_ms, to_ms).value;
  readings.memory_bytes = (*moment)[Quantity::memory];
  readings.temperature_c = (*moment)[Quantity::temperature];
  readings.clock_mhz = (*moment)[Quantity::clock];
  readings.pcie_bytes_s = (*moment)[Quantity::pcie];
  readings.nvlink_bytes_s = (*moment)[Quantity::nvlink];
  readings.limits = moment->limits;
  readings.state = moment->state;
  return readings;
}

std::string percent_of(const std::optional<double>& fraction) {
  return fraction ? fmt::format("{:.0f}%", *fraction * 100) : "-";
}

std::string power_of_limit(const Readings& readings, const GpuInfo& info) {
  if (!readings.power_mw) return "-";
  if (!info.power_limit_mw) return fmt::format("{:.0f}W", *readings.power_mw / 1e3);
  return fmt::format("{:.0f}/{:.0f}W", *readings.power_mw / 1e3, *info.power_limit_mw / 1e3);
}

std::string memory_of_total(const Readings& readings, const GpuInfo& info) {
  if (!readings.memory_bytes) return "-";
  if (!info.memory_total_bytes) return gibibytes(*readings.memory_bytes) + "G";
  return fmt::format("{}/{}G", gibibytes(*readings.memory_bytes),
                     gibibytes(static_cast<double>(*info.memory_total_bytes)));
}

std::string temperature_of(const Readings& readings) {
  return readings.temperature_c ? fmt::format("{:.0f}C", *readings.temperature_c) : "-";
}

std::string limits_of(const ClockLimits& limits) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kClockLimitNames.size(); ++i)
    if (limits.has(static_cast<ClockLimit>(i))) names.emplace_back(kClockLimitNames[i]);
  return names.empty() ? "none" : join(names, ", ");
}

std::optional<double> lane_value(Quantity quantity, const std::optional<double>& value,
                                 const GpuInfo& info, double highest) {
  if (!value) return std::nullopt;
  double most = 1;
  switch (quantity) {
    case Quantity::busy:
    case Quantity::sm:
    case Quantity::tensor:
    case Quantity::dram: break;
    case Quantity::power: most = info.power_limit_mw.value_or(highest); break;
    case Quantity::memory:
      most = info.memory_total_bytes ? static_cast<double>(*info.memory_total_bytes) : highest;
      break;
    case Quantity::temperature: most = 100; break;
    case Quantity::pcie:
    case Quantity::nvlink:
    case Quantity::clock: most = highest; break;
  }
  return most > 0 ? std::clamp(*value / most, 0.0, 1.0) : 0;
}

}  // namespace lockstep
