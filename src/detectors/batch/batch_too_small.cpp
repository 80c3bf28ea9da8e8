// B501: the batch is too small to fill the GPU.
//
// Why it shows: a kernel always runs (busy near 100 %), but few of the SMs have work, power is low,
// and most of the memory is free. More rows a step would cost hardly more time. Confused with:
// waiting in a collective (ranks that spin: then hollow time differs between ranks or the stuck
// rank is empty), launch-bound (often both). Without SM activity (GPM, Hopper and later) low power
// alone is a suspicion: real healthy runs of small models sit at 42 % of the limit.
#include "detectors/all_detectors.hpp"
#include "detectors/finding_tools.hpp"

namespace lockstep {

std::vector<Finding> find_batch_too_small(const Seen& seen) {
  constexpr double kBusyAtLeast = 0.75;
  constexpr double kSmAtMost = 0.4;
  constexpr double kMemoryAtMost = 0.5;
  constexpr double kPowerAtMost = 0.4;
  constexpr double kGoodSm = 0.7;
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
    if (busy < kBusyAtLeast || memory > kMemoryAtMost || job.longest_hollow_ms > 10'000 ||
        is_perfectly_still(job, seen.signals))
      continue;
    if (sm_known ? sm > kSmAtMost : power > kPowerAtMost) continue;
    if (memory_bound) continue;
    if (sm_known && power > 0.7) continue;  // it works hard, whatever its SMs say
    std::vector<Evidence> evidence = {{"busy", busy, kBusyAtLeast, "fraction"},
                                      {"memory", memory, kMemoryAtMost, "fraction"}};
    if (sm_known) evidence.push_back({"sm", sm, kSmAtMost, "fraction"});
    evidence.push_back({"power_of_limit", power, kPowerAtMost, "fraction"});
    if (job.settings && job.settings->batch_room)
      evidence.push_back({"batch_could_grow", *job.settings->batch_room, std::nullopt, "times"});
    const double lost = sm_known ? std::min(0.5, 1 - sm / kGoodSm) : 0.2;
    findings.push_back(about_job(FindingCode::batch_too_small, job, Severity::warning,
                                 sm_known && job.origin == JobOrigin::processes ? 0.6 : 0.4, lost,
                                 std::move(evidence)));
  }
  return findings;
}

}  // namespace lockstep
