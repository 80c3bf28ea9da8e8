// One reading of one GPU at one moment. Every field may be missing, and says why.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

// `not_asked` is the absence of a reading at this tick (dear calls have slower cadences). The other
// four are what a reader must tell apart: a failed read is never shown as 0.
enum class ReadingState : std::uint8_t { not_asked, value, not_supported, error, stale };

template <class T>
class Reading {
 public:
  Reading() = default;
  Reading(T value)
      : state_(ReadingState::value), value_(std::move(value)) {}  // NOLINT: implicit on purpose

  static Reading not_supported() { return Reading(ReadingState::not_supported); }
  static Reading error() { return Reading(ReadingState::error); }

  ReadingState state() const { return state_; }
  bool asked() const { return state_ != ReadingState::not_asked; }
  bool has_value() const { return state_ == ReadingState::value; }

  // The value when it is good; nothing when it is stale or was never had.
  std::optional<T> value() const { return has_value() ? std::optional<T>(value_) : std::nullopt; }
  // The last value there was, good or stale.
  std::optional<T> last_value() const {
    return has_value() || state_ == ReadingState::stale ? std::optional<T>(value_) : std::nullopt;
  }
  // The same reading grown old: what the driver said before it stopped answering.
  Reading as_stale() const {
    Reading old = *this;
    if (has_value()) old.state_ = ReadingState::stale;
    return old;
  }

  bool operator==(const Reading&) const = default;

 private:
  explicit Reading(ReadingState state) : state_(state) {}

  ReadingState state_ = ReadingState::not_asked;
  T value_{};
};

// NVML's clock event reasons. The bit of a limit in ClockLimits is its place in this list.
enum class ClockLimit : std::uint8_t {
  gpu_idle,
  applications_clocks_setting,
  sw_power_cap,
  hw_slowdown,
  sync_boost,
  sw_thermal_slowdown,
  hw_thermal_slowdown,
  hw_power_brake_slowdown,
  display_clock_setting,
};
inline constexpr std::array<std::string_view, 9> kClockLimitNames = {"gpu_idle",
                                                                     "applications_clocks_setting",
                                                                     "sw_power_cap",
                                                                     "hw_slowdown",
                                                                     "sync_boost",
                                                                     "sw_thermal_slowdown",
                                                                     "hw_thermal_slowdown",
                                                                     "hw_power_brake_slowdown",
                                                                     "display_clock_setting"};

class ClockLimits {
 public:
  void add(ClockLimit limit) {
    bits_ = static_cast<std::uint16_t>(bits_ | (1U << static_cast<unsigned>(limit)));
  }
  void add(ClockLimits others) { bits_ = static_cast<std::uint16_t>(bits_ | others.bits_); }
  bool has(ClockLimit limit) const { return (bits_ >> static_cast<unsigned>(limit) & 1U) != 0; }
  bool empty() const { return bits_ == 0; }
  bool operator==(const ClockLimits&) const = default;

 private:
  std::uint16_t bits_ = 0;
};

// A run of equally spaced power samples from the driver's own buffer.
struct PowerSamples {
  std::vector<std::uint32_t> milliwatts;
  double sample_ms = 0;  // spacing by the driver's time stamps; 20 on an H200
  // time of the first sample; nothing: the last one ends at the tick
  std::optional<double> first_ms;

  bool operator==(const PowerSamples&) const = default;
};

struct GpuSample {
  int index = 0;
  Reading<double> busy;  // 0..1 over the driver's window
  Reading<std::uint64_t> memory_used_bytes;
  Reading<double> power_mw;
  Reading<PowerSamples> power_samples;
  Reading<double> sm;      // 0..1, GPM
  Reading<double> tensor;  // 0..1, GPM
  Reading<double> dram;    // 0..1, GPM
  Reading<double> sm_clock_mhz;
  Reading<double> temperature_c;
  Reading<ClockLimits> limits;
  Reading<std::uint64_t> pcie_rx_bytes;  // cumulative, like the three below
  Reading<std::uint64_t> pcie_tx_bytes;
  Reading<std::uint64_t> nvlink_rx_bytes;
  Reading<std::uint64_t> nvlink_tx_bytes;

  bool operator==(const GpuSample&) const = default;
};

// The plain quantities of a sample, each with its name in a recording: one list that writer,
// reader, player and timeline follow. Takes any number of things with these members (samples,
// tracks) and visits them abreast.
template <class Visit, class... Parts>
void for_each_quantity(Visit visit, Parts&&... parts) {
  visit("busy", parts.busy...);
  visit("memory_used_bytes", parts.memory_used_bytes...);
  visit("power_mw", parts.power_mw...);
  visit("sm", parts.sm...);
  visit("tensor", parts.tensor...);
  visit("dram", parts.dram...);
  visit("sm_clock_mhz", parts.sm_clock_mhz...);
  visit("temperature_c", parts.temperature_c...);
  visit("limits", parts.limits...);
  visit("pcie_rx_bytes", parts.pcie_rx_bytes...);
  visit("pcie_tx_bytes", parts.pcie_tx_bytes...);
  visit("nvlink_rx_bytes", parts.nvlink_rx_bytes...);
  visit("nvlink_tx_bytes", parts.nvlink_tx_bytes...);
}

}  // namespace lockstep
