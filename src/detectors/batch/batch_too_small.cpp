// B501: the batch is too small to fill the GPU.
//
// Why it shows: a kernel always runs (busy near 100 %), but few of the SMs have work, power is low,
// and most of the memory is free. More rows a step would cost hardly more time. Smaller ones still,
// and the host cannot launch the kernels as fast as they end: the GPU rests between them. Measured
// on an H200 (tests/recordings/batch_curve.py): GPT-2 of 124M takes 21 ms per step with 1 sample of
// 1024 tokens as with 4; with 1 the SMs are 16 % at work, with 64 they are 92 %. Confused with:
// waiting in a collective (ranks that spin: then hollow time differs between ranks or the stuck
// rank is empty), launch-bound (often both). Without SM activity (GPM, Hopper and later) low power
// alone is a suspicion: real healthy runs of small models sit at 42 % of the limit.
#include <cmath>

#include "detectors/all_detectors.hpp"
#include "detectors/stack_tools.hpp"

namespace lockstep {
namespace {

// What a batch brings of what the largest does, by the SMs at work: within 10 points for GPT-2 with
// 1 to 64 samples, and for two smaller shapes with 2 to 64 (tests/recordings/batch_curve.json).
double reached_by_sm(double sm) {
  constexpr double kFull = 0.92;
  constexpr double kBend = 1.2;  // full SMs also work better
  return std::pow(std::clamp(sm / kFull, 0.0, 1.0), kBend);
}

// The same by power: an H200 that runs an empty kernel draws 17 % of its limit, at work 85 %.
double reached_by_power(double of_limit) {
  constexpr double kEmpty = 0.17;
  constexpr double kFull = 0.85;
  return std::clamp((of_limit - kEmpty) / (kFull - kEmpty), 0.0, 1.0);
}

// A loader gives a few samples at a time: then it is the batch that makes the kernels small, and
// not the model.
bool has_few_samples(const JobSignals& job) {
  constexpr int kFew = 4;
  if (!job.settings) return false;
  return std::ranges::any_of(job.settings->loaders, [](const LoaderSetting& loader) {
    return loader.batch && *loader.batch >= 1 && *loader.batch <= kFew;
  });
}

}  // namespace

std::vector<Finding> find_batch_too_small(const Seen& seen) {
  constexpr double kBusyAtLeast = 0.75;
  constexpr double kSmAtMost = 0.4;
  constexpr double kMemoryAtMost = 0.5;
  constexpr double kPowerAtMost = 0.4;
  constexpr double kRestsAtLeast = 0.3;  // of the time, while the host launches, by GPU records
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < seen.signals.jobs.size(); ++i) {
    const JobSignals& job = seen.signals.jobs[i];
    if (!in_step_or_alone(pattern_of(seen, i)) || !trains(job) || job.origin == JobOrigin::foreign)
      continue;
    // they wait for ranks that are not there
    if (promised_ranks(job).value_or(0) > static_cast<int>(job.ranks.size())) continue;
    double busy = 0;
    double memory = 0;
    double power = 0;
    double sm = 0;
    bool sm_known = true;
    // few SMs at work, all of them waiting for memory: a larger batch would not help
    bool memory_bound = false;
    const auto count = static_cast<double>(job.members.size());
    for (const GpuInJob& member : job.members) {
      busy += member.busy.value_or(0) / count;
      memory = std::max(memory, member.memory_fraction.value_or(1));
      power += member.power_of_limit.value_or(1) / count;
      for (const GpuSignals& gpu : seen.signals.gpus) {
        if (gpu.index != member.index) continue;
        sm_known = sm_known && gpu.sm.has_value();
        sm += gpu.sm.value_or(0) / count;
        memory_bound = memory_bound || gpu.dram.value_or(0) > 0.6;
      }
    }
    double least_wait = 1;
    double most_wait = 0;
    for (const GpuInJob& member : job.members) {
      least_wait = std::min(least_wait, member.hollow.value_or(0) * member.busy.value_or(0));
      most_wait = std::max(most_wait, member.hollow.value_or(0) * member.busy.value_or(0));
    }
    // some wait for others: their SMs are empty for that reason
    if (most_wait - least_wait > 0.12) continue;
    if (memory > kMemoryAtMost || job.longest_hollow_ms > 10'000 ||
        is_perfectly_still(job, seen.signals))
      continue;
    // Where the host is the limit the GPU rests: a larger batch brings more, too.
    const RankDevices* const recorded = least_launch_bound(job);
    const bool host_is_the_limit =
        sm_known && (recorded != nullptr
                         ? idle_while_launching(*recorded) >= kRestsAtLeast && has_few_samples(job)
                         : launches_all_the_time(job));
    if (busy < kBusyAtLeast && !host_is_the_limit) continue;
    if (sm_known ? sm > kSmAtMost : power > kPowerAtMost) continue;
    if (memory_bound) continue;
    if (sm_known && power > 0.7) continue;  // it works hard, whatever its SMs say
    std::vector<Evidence> evidence = {
        {"busy", busy, host_is_the_limit ? std::nullopt : std::optional(kBusyAtLeast), "fraction"},
        {"memory", memory, kMemoryAtMost, "fraction"}};
    if (sm_known) evidence.push_back({"sm", sm, kSmAtMost, "fraction"});
    evidence.push_back({"power_of_limit", power, kPowerAtMost, "fraction"});
    if (job.settings && job.settings->batch_room)
      evidence.push_back({"batch_could_grow", *job.settings->batch_room, std::nullopt, "times"});
    const double lost = 1 - (sm_known ? reached_by_sm(sm) : reached_by_power(power));
    findings.push_back(about_job(FindingCode::batch_too_small, job, Severity::warning,
                                 sm_known && job.origin == JobOrigin::processes ? 0.6 : 0.4, lost,
                                 std::move(evidence)));
  }
  return findings;
}

}  // namespace lockstep
