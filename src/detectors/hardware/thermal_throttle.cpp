// H602: a GPU lowers its clock because it is too hot.
//
// Why it shows: the driver says so: sw_thermal_slowdown, hw_thermal_slowdown, or hw_slowdown. One
// hot GPU of a job makes all its ranks wait. Confused with: power-capped (other limits). A reading
// in passing is no finding: the share of working time counts. Blind: where limits are not read
// (imports of other tools' logs).
#include "detectors/all_detectors.hpp"
#include "detectors/finding_tools.hpp"

namespace lockstep {
namespace {

// What the GPU would run at: its own clock while nothing held it back, else that of another of its
// kind, else its highest.
std::optional<double> free_clock(const Signals& signals, const GpuSignals& gpu) {
  if (gpu.clock_while_free_mhz) return gpu.clock_while_free_mhz;
  std::optional<double> best = gpu.clock_highest_mhz;
  for (const GpuSignals& other : signals.gpus)
    if (other.info.name == gpu.info.name && other.clock_while_free_mhz)
      best = std::max(best.value_or(0), *other.clock_while_free_mhz);
  // Hot from the first reading on: what a GPU keeps of its highest clock at full load.
  constexpr double kUsual = 0.88;
  if (gpu.info.sm_clock_max_mhz)
    best = std::max(best.value_or(0), kUsual * *gpu.info.sm_clock_max_mhz);
  return best;
}

// Where no column says what holds the clock down: as hot as GPUs get before they slow down, and a
// clock that has fallen from what the same GPU had.
std::optional<Finding> hot_and_slow(const GpuSignals& gpu) {
  constexpr double kHotC = 88;    // slowdown begins at 87 to 93 on A100, H100 and RTX cards
  constexpr double kKept = 0.88;  // boost varies by a few percent
  if (gpu.limit_shares || gpu.temperature_highest_c.value_or(0) < kHotC || !gpu.clock_mhz ||
      !gpu.clock_highest_mhz || *gpu.clock_highest_mhz <= 0 || gpu.busy_fraction.value_or(0) < 0.3)
    return std::nullopt;
  const double kept = *gpu.clock_mhz / *gpu.clock_highest_mhz;
  if (kept > kKept) return std::nullopt;
  return about_gpu(FindingCode::thermal_throttle, gpu.index, Severity::warning, 0.65, 1 - kept,
                   {{"temperature", *gpu.temperature_highest_c, kHotC, "C"},
                    {"clock_kept", kept, kKept, "fraction"}});
}

}  // namespace

std::vector<Finding> find_thermal_throttle(const Seen& seen) {
  constexpr double kShareAtLeast = 0.05;
  // one reading may be left over from before: limits are read twice a second or less
  constexpr double kLooksAtLeast = 2;
  // of the clock, where it was not read: a hardware slowdown halves it or more
  constexpr double kUsualCut = 0.3;
  std::vector<Finding> findings;
  for (const GpuSignals& gpu : seen.signals.gpus) {
    if (auto finding = hot_and_slow(gpu)) findings.push_back(std::move(*finding));
    if (!gpu.limit_shares) continue;
    const auto share = [&](ClockLimit limit) {
      return (*gpu.limit_shares)[static_cast<std::size_t>(limit)];
    };
    // hw_slowdown is heat or the power brake: beside the brake's own flag it is the brake.
    const bool brake = share(ClockLimit::hw_power_brake_slowdown) > 0;
    const double hot =
        std::max({share(ClockLimit::sw_thermal_slowdown), share(ClockLimit::hw_thermal_slowdown),
                  brake ? 0.0 : share(ClockLimit::hw_slowdown)});
    if (hot < kShareAtLeast || hot * gpu.limit_looks < kLooksAtLeast - 0.5) continue;
    double kept = 1 - kUsualCut;
    const auto free = free_clock(seen.signals, gpu);
    if (gpu.clock_while_limited_mhz && free && *free > 0)
      kept = std::min(1.0, *gpu.clock_while_limited_mhz / *free);
    std::vector<Evidence> evidence = {{"throttled_share", hot, kShareAtLeast, "fraction"},
                                      {"clock_kept", kept, std::nullopt, "fraction"}};
    if (gpu.temperature_highest_c)
      evidence.push_back({"temperature", *gpu.temperature_highest_c, std::nullopt, "C"});
    findings.push_back(about_gpu(FindingCode::thermal_throttle, gpu.index,
                                 hot > 0.3 ? Severity::critical : Severity::warning, 0.9,
                                 std::max(0.02, hot * (1 - kept)), std::move(evidence)));
  }
  return findings;
}

}  // namespace lockstep
