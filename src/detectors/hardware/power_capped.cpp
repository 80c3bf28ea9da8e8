// H601: a GPU runs slower than it could because its power limit or its clocks were lowered.
//
// Why it shows: the driver sets sw_power_cap (or hw_power_brake_slowdown) and lowers the SM clock.
// A GPU that works hard touches its limit all the time, and that is as it should be: what counts is
// a limit below the maker's, or a clock far below what its twins have. Clocks that somebody locked
// (nvidia-smi -lgc) set no flag at all (seen on an H200): the clock stands still far below the
// highest that the GPU may have. Confused with: a healthy GPU at its limit (an H200 training GPT-2
// in bf16 keeps 0.80 of its highest clock), thermal-throttle (other limits). Blind: where the
// maker's limit is not known and all GPUs are capped the whole time, only a deep cut tells.
#include "detectors/all_detectors.hpp"
#include "detectors/finding_tools.hpp"

namespace lockstep {
namespace {

constexpr double kCappedAtLeast = 0.3;   // of its working time
constexpr double kOfTwinsAtMost = 0.85;  // of the clock that another of its kind has at work
// of its own highest: at its maker's limit 0.80 was seen
constexpr double kOfOwnAtMost = 0.7;
constexpr double kUsualAtOwnLimit = 0.8;
// of its highest clock; a V100's default applications clock is 0.84
constexpr double kLockedAtMost = 0.75;
constexpr double kBrakeAtLeast = 0.02;

std::optional<double> larger(std::optional<double> one, std::optional<double> other) {
  return one && other ? std::max(*one, *other) : one ? one : other;
}

// What others of its kind run at, and the highest limit among them.
struct Twins {
  std::optional<double> clock_mhz;
  double limit_mw = 0;
};
Twins twins_of(const GpuSignals& gpu, const Signals& signals) {
  Twins twins;
  for (const GpuSignals& other : signals.gpus) {
    if (other.info.name != gpu.info.name) continue;
    twins.limit_mw = std::max(twins.limit_mw, other.info.power_limit_mw.value_or(0));
    if (other.index != gpu.index) twins.clock_mhz = larger(twins.clock_mhz, other.clock_mhz);
  }
  return twins;
}

double share(const GpuSignals& gpu, ClockLimit limit) {
  return gpu.limit_shares ? (*gpu.limit_shares)[static_cast<std::size_t>(limit)] : 0;
}

// 1: not lower, as far as is known.
double kept_of(std::optional<double> clock, std::optional<double> free) {
  return clock && free && *free > 0 ? *clock / *free : 1;
}

std::optional<Finding> capped(const GpuSignals& gpu, const Signals& signals) {
  const double brake = share(gpu, ClockLimit::hw_power_brake_slowdown);
  const double capped = std::max(share(gpu, ClockLimit::sw_power_cap), brake);
  const bool braked = brake >= kBrakeAtLeast;
  if (capped < kCappedAtLeast && !braked) return std::nullopt;
  const Twins twins = twins_of(gpu, signals);
  auto limit = gpu.info.power_limit_mw;
  // Held down by a power limit all the time, and far below the one that is known: the log has none,
  // and that of its name is not what it runs with.
  constexpr double kNearItsLimit = 0.8;
  if (limit && capped > 0.6 && gpu.power_highest_mw &&
      *gpu.power_highest_mw < kNearItsLimit * *limit)
    limit = gpu.power_highest_mw;
  const auto highest_limit =
      larger(gpu.info.power_limit_default_mw,
             twins.limit_mw > 0 ? std::optional(twins.limit_mw) : std::nullopt);
  const bool limit_is_lower = limit && highest_limit && *limit < 0.92 * *highest_limit;
  const bool limit_is_the_makers = limit && gpu.info.power_limit_default_mw && !limit_is_lower;
  const double of_twins = kept_of(gpu.clock_while_limited_mhz, twins.clock_mhz);
  const auto seen_highest = larger(gpu.clock_while_free_mhz, gpu.clock_highest_mhz);
  const double of_own = kept_of(gpu.clock_while_limited_mhz, seen_highest);
  double lost = 0;
  double kept = std::min(of_twins, of_own);
  double threshold = kOfTwinsAtMost;
  if (of_twins <= kOfTwinsAtMost)
    lost = (1 - of_twins) * capped;
  else if (limit_is_lower) {  // it may never have been free while it was watched
    kept = kept_of(gpu.clock_while_limited_mhz, larger(seen_highest, gpu.info.sm_clock_max_mhz));
    lost = std::max(0.03, (1 - kept / kUsualAtOwnLimit) * capped);
  } else if (!limit_is_the_makers && of_own <= kOfOwnAtMost) {
    lost = (1 - of_own / kUsualAtOwnLimit) * capped;
    threshold = kOfOwnAtMost;
  }
  if (braked) lost = std::max({lost, 0.05, (1 - kept) * brake});
  if (lost <= 0) {
    // Nothing to compare with, not even a moment in which it was free.
    const bool compared = gpu.clock_while_free_mhz || limit_is_the_makers || of_own <= 0.97;
    if (compared || capped <= 0.8) return std::nullopt;
    return about_gpu(FindingCode::power_capped, gpu.index, Severity::info, 0.3, 0.1,
                     {{"capped_share", capped, kCappedAtLeast, "fraction"}});
  }
  std::vector<Evidence> evidence = {{"capped_share", capped, kCappedAtLeast, "fraction"},
                                    {"clock_kept", kept, threshold, "fraction"}};
  if (limit_is_lower) evidence.push_back({"power_limit", *limit, *highest_limit, "mW"});
  return about_gpu(FindingCode::power_capped, gpu.index,
                   braked ? Severity::critical : Severity::warning, 0.75, lost,
                   std::move(evidence));
}

std::optional<Finding> clocks_locked(const GpuSignals& gpu) {
  constexpr double kSame = 1.02;
  const auto most = gpu.info.sm_clock_max_mhz;
  if (!most || !gpu.clock_mhz || !gpu.clock_highest_mhz || !gpu.limit_shares) return std::nullopt;
  const bool stands_still = *gpu.clock_highest_mhz <= kSame * *gpu.clock_mhz;
  if (!stands_still || *gpu.clock_mhz > kLockedAtMost * *most ||
      gpu.busy_fraction.value_or(0) < 0.2)
    return std::nullopt;
  for (const ClockLimit limit :
       {ClockLimit::sw_power_cap, ClockLimit::hw_slowdown, ClockLimit::sw_thermal_slowdown,
        ClockLimit::hw_thermal_slowdown, ClockLimit::hw_power_brake_slowdown})
    // something else holds it down, and has its own finding
    if (share(gpu, limit) >= kCappedAtLeast) return std::nullopt;
  return about_gpu(FindingCode::power_capped, gpu.index, Severity::warning, 0.75,
                   1 - *gpu.clock_mhz / (kUsualAtOwnLimit * *most),
                   {{"clock_locked", *gpu.clock_mhz, *most, "MHz"},
                    {"clock_kept", *gpu.clock_mhz / *most, kLockedAtMost, "fraction"}});
}

}  // namespace

std::vector<Finding> find_power_capped(const Seen& seen) {
  std::vector<Finding> findings;
  for (const GpuSignals& gpu : seen.signals.gpus) {
    auto finding = capped(gpu, seen.signals);
    if (!finding) finding = clocks_locked(gpu);
    if (finding) findings.push_back(std::move(*finding));
  }
  return findings;
}

}  // namespace lockstep
