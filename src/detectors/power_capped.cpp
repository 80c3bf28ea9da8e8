// H601: a GPU runs slower than it could because of its power limit.
//
// Why it shows: the driver sets sw_power_cap (or hw_power_brake_slowdown) and lowers the SM clock. A GPU that works hard
// touches its limit all the time, and that is as it should be: what counts is how much clock it costs, against the clock
// the same GPU or its twins had without the cap.
// Confused with: a healthy GPU at its limit (clock hardly lower), thermal-throttle (other limits).
// Blind: where all GPUs are capped the whole time there is nothing to compare with; then a lower limit than that of its
// twins is the only sign.
#include "detectors/all_detectors.hpp"
#include "detectors/finding_tools.hpp"

namespace lockstep {
namespace {

constexpr double kCappedAtLeast = 0.3;  // of its working time
constexpr double kClockAtMost = 0.85;   // of the free clock; at its limit an H200 still runs at 0.9 of it

std::optional<double> free_clock(const GpuSignals& gpu, const Signals& signals) {
  std::optional<double> best;
  for (const GpuSignals& other : signals.gpus) {
    if (other.info.name != gpu.info.name) continue;
    const auto clock = other.index == gpu.index ? gpu.clock_while_free_mhz : other.clock_mhz;
    if (clock) best = std::max(best.value_or(0), *clock);
    if (other.clock_highest_mhz) best = std::max(best.value_or(0), *other.clock_highest_mhz);
  }
  return best;
}

double share(const GpuSignals& gpu, ClockLimit limit) {
  return gpu.limit_shares ? (*gpu.limit_shares)[static_cast<std::size_t>(limit)] : 0;
}

}  // namespace

std::vector<Finding> find_power_capped(const Seen& seen) {
  std::vector<Finding> findings;
  for (const GpuSignals& gpu : seen.signals.gpus) {
    const double brake = share(gpu, ClockLimit::hw_power_brake_slowdown);
    const double capped = std::max(share(gpu, ClockLimit::sw_power_cap), brake);
    if (capped < kCappedAtLeast && brake < 0.02) continue;
    const auto clock = gpu.clock_while_limited_mhz;
    const auto free = free_clock(gpu, seen.signals);
    double highest_limit = gpu.info.power_limit_mw.value_or(0);
    for (const GpuSignals& other : seen.signals.gpus)
      if (other.info.name == gpu.info.name) highest_limit = std::max(highest_limit, other.info.power_limit_mw.value_or(0));
    const bool lower_limit = gpu.info.power_limit_mw && *gpu.info.power_limit_mw < 0.92 * highest_limit;
    const double kept = clock && free && *free > 0 ? *clock / *free : 1;
    const bool nothing_to_compare = !gpu.clock_while_free_mhz && capped > 0.8 && kept > 0.97;
    if (nothing_to_compare && !lower_limit && brake < 0.02) {
      findings.push_back(about_gpu(FindingCode::power_capped, gpu.index, Severity::info, 0.3, 0.1, {{"capped_share", capped, kCappedAtLeast, "fraction"}}));
      continue;
    }
    if (kept > kClockAtMost && !lower_limit && brake < 0.02) continue;
    const double lost = std::max({(1 - kept) * capped, lower_limit ? 0.03 : 0.0, brake > 0 ? 0.05 : 0.0});
    std::vector<Evidence> evidence = {{"capped_share", capped, kCappedAtLeast, "fraction"}, {"clock_kept", kept, kClockAtMost, "fraction"}};
    if (lower_limit) evidence.push_back({"power_limit", *gpu.info.power_limit_mw, highest_limit, "mW"});
    findings.push_back(about_gpu(FindingCode::power_capped, gpu.index, brake > 0.02 ? Severity::critical : Severity::warning, 0.75, lost, std::move(evidence)));
  }
  return findings;
}

}  // namespace lockstep
