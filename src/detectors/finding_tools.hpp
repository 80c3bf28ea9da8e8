// What most detectors need: a finding about a job, and questions about jobs.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/median.hpp"
#include "lockstep/detector.hpp"

namespace lockstep {

inline std::string percent(double fraction) {
  return std::to_string(static_cast<int>(std::lround(fraction * 100))) + " %";
}

inline Finding about_job(FindingCode code, const JobSignals& job, Severity severity,
                         double confidence, double lost, std::vector<Evidence> evidence) {
  Finding finding;
  finding.code = code;
  finding.severity = severity;
  finding.confidence = std::clamp(confidence, 0.0, 0.99);
  finding.lost_throughput = std::clamp(lost, 0.0, 1.0);
  finding.gpus = job.gpus;
  finding.pids = job.pids;
  finding.ranks = job.ranks;
  finding.evidence = std::move(evidence);
  return finding;
}

inline Finding about_gpu(FindingCode code, int gpu, Severity severity, double confidence,
                         double lost, std::vector<Evidence> evidence) {
  JobSignals alone;
  alone.gpus = {gpu};
  return about_job(code, alone, severity, confidence, lost, std::move(evidence));
}

inline bool holds(const JobSignals& job, int gpu) {
  return std::ranges::find(job.gpus, gpu) != job.gpus.end();
}

// Trains, as far as can be seen: it works, and its command line is no inference server's.
inline bool trains(const JobSignals& job) { return job.active && !job.serves; }

inline Pattern pattern_of(const Seen& seen, std::size_t job) {
  return seen.verdicts[job].verdict.pattern;
}

// Ranks that do the same work: the patterns in which waiting for each other, for data or for the
// host is a loss.
inline bool in_step_or_alone(Pattern pattern) {
  return pattern == Pattern::in_step || pattern == Pattern::single_gpu;
}

// Ranks begin their steps at one moment: 1.00 of the time in simulated runs of uneven lengths.
// Stages of a pipeline begin one after the other, the same in every step: 0.6 to 0.8 (short ones
// fall into one moment), with a period as clear as 0.84 to 0.96, where uneven steps have 0.2 to
// 0.75.
inline bool begin_together(const TurnSignals& turns) {
  const double share = turns.rises_together.value_or(0);
  return share > 0.9 || (share > 0.5 && turns.period_strength < 0.8);
}

// Ranks of one job, by their processes, or since they begin each step at one moment, a dozen times
// and more: strangers do not.
inline bool begin_as_one(const TurnSignals& turns) {
  constexpr double kAlways = 0.95;
  constexpr double kAgree = 0.25;  // strangers' short steps often begin at one moment by chance
  return turns.kind == LaneKind::power_samples && turns.rises_together.value_or(0) > kAlways &&
         turns.together > kAgree;
}
inline bool is_known_as_one(const JobSignals& job) {
  return job.origin == JobOrigin::processes || (job.fine && begin_as_one(*job.fine));
}

// Attached after it got stuck, nothing else is there to compare with. But training is never as
// still as this: every GPU at 100 % in every reading, at a low power that does not move, and its
// tensor cores at rest. (An H100 that spins draws 120 to 160 of 700 W, an A100 85 to 110 of 400 W,
// an RTX 6000 Ada 83 of 300 W.)
inline bool is_perfectly_still(const JobSignals& job, const Signals& signals) {
  constexpr double kLowPower = 0.37;  // of the limit
  // where SMs and tensor cores were read, too, and are as idle as below
  constexpr double kLowPowerOfIdleSms = 0.4;
  constexpr double kLowSm = 0.25;   // NCCL's kernels hold 16 to 32 of 132 SMs
  constexpr double kAtRest = 0.01;  // of the tensor cores
  constexpr double kSwing = 0.06;   // of a lane: what a power meter wavers by itself
  constexpr double kMoves = 0.25;   // of the power, from the lowest to the highest reading
  if (job.gpus.empty() || job.serves || job.origin == JobOrigin::foreign) return false;
  // One GPU alone may have little to do all the time: its SMs must be empty.
  constexpr double kEmptySm = 0.03;
  if (job.gpus.size() == 1 && signals.jobs.size() == 1)
    for (const GpuSignals& gpu : signals.gpus)
      if (gpu.index == job.gpus.front() && gpu.sm.value_or(1) > kEmptySm) return false;
  const bool counted = std::ranges::all_of(signals.gpus, [&](const GpuSignals& gpu) {
    return !holds(job, gpu.index) || (gpu.sm && gpu.tensor);
  });
  const double low_power = counted ? kLowPowerOfIdleSms : kLowPower;
  for (const GpuInJob& member : job.members)
    if (member.busy.value_or(0) < 0.985 || member.power_of_limit.value_or(1) > low_power)
      return false;
  const bool fine = job.fine && job.fine->kind == LaneKind::power_samples;
  if (fine && job.fine->swing > kSwing) return false;
  for (const GpuSignals& gpu : signals.gpus) {
    if (!holds(job, gpu.index)) continue;
    if (gpu.sm.value_or(0) > kLowSm || gpu.tensor.value_or(0) > kAtRest) return false;
    if (!fine && (!gpu.power_highest_mw || !gpu.power_lowest_mw || !gpu.power_mw ||
                  *gpu.power_highest_mw - *gpu.power_lowest_mw > kMoves * *gpu.power_mw))
      return false;
  }
  return true;
}

// GPUs of the job that hold their part of it and did nothing for as long as they were watched,
// while every other one was busy without a pause, at a power that does not move and is none of
// work: they wait for those. (A GPU that spins draws 0.2 to 0.45 of its limit; training moves, or
// draws more.)
inline std::vector<int> absent_members(const JobSignals& job, const Signals& signals) {
  constexpr double kNothing = 0.02;
  constexpr double kBusy = 0.97;
  constexpr double kLowPower = 0.5;  // of the limit
  constexpr double kMoves = 0.25;    // of the power, from the lowest to the highest reading
  constexpr double kLowSm = 0.25;
  constexpr double kHoldsAContext = 3e8;
  std::vector<int> absent;
  std::size_t still = 0;
  if (job.serves || job.one_process_on_all) return {};
  for (const GpuInJob& member : job.members) {
    if (!member.busy) return {};
    if (*member.busy < kNothing) {
      if (member.memory_bytes.value_or(0) > kHoldsAContext) absent.push_back(member.index);
      continue;
    }
    if (*member.busy < kBusy) return {};
    for (const GpuSignals& gpu : signals.gpus) {
      if (gpu.index != member.index) continue;
      const bool low_sm = gpu.sm && *gpu.sm < kLowSm;
      if (gpu.sm && !low_sm) return {};
      if (!low_sm && member.power_of_limit.value_or(1) > kLowPower) return {};
      if (!gpu.power_highest_mw || !gpu.power_lowest_mw || !gpu.power_mw ||
          *gpu.power_highest_mw - *gpu.power_lowest_mw > kMoves * *gpu.power_mw)
        return {};
    }
    ++still;
  }
  return still > 0 ? absent : std::vector<int>();
}

// Whether waiting within the steps can be judged: the ranks do the same work, as the GPUs show or
// the steps themselves.
inline bool steps_can_be_judged(const Seen& seen, std::size_t job) {
  return in_step_or_alone(pattern_of(seen, job)) ||
         seen.signals.jobs[job].origin == JobOrigin::steps;
}

// Readings so far apart that stretches of a second cannot be seen.
inline bool is_coarse(const Signals& signals) { return signals.tick_ms > 2500; }

// Mean of its GPUs; one that was not read counts as not busy.
inline double busy_on_average(const JobSignals& job) {
  double sum = 0;
  for (const GpuInJob& member : job.members) sum += member.busy.value_or(0);
  return job.members.empty() ? 0 : sum / static_cast<double>(job.members.size());
}

// Mean of its GPUs: share of the time in which they worked.
inline double mean_working(const JobSignals& job) {
  double sum = 0;
  for (const GpuInJob& member : job.members)
    sum += member.time ? member.time->working : member.busy.value_or(0);
  return job.members.empty() ? 0 : sum / static_cast<double>(job.members.size());
}

inline std::optional<double> median_hollow_of_others(const JobSignals& job, std::size_t without) {
  std::vector<double> values;
  for (std::size_t i = 0; i < job.members.size(); ++i)
    if (i != without && job.members[i].hollow) values.push_back(*job.members[i].hollow);
  if (values.empty()) return std::nullopt;
  return middle_value(std::move(values));
}

// Of the time in which a kernel runs, how much of the GPU it fills. Tiny kernels leave most of it
// empty: 0.39 and 0.47 in launch-bound runs on an H200, where starved and healthy ones had 0.74 to
// 0.9. Nothing: SM activity is not known.
inline std::optional<double> filled_while_busy(const JobSignals& job, const Signals& signals) {
  double busy = 0;
  double sm = 0;
  for (const GpuInJob& member : job.members)
    for (const GpuSignals& gpu : signals.gpus) {
      if (gpu.index != member.index) continue;
      if (!gpu.sm || !member.busy) return std::nullopt;
      busy += *member.busy;
      sm += *gpu.sm;
    }
  return busy > 0.05 ? std::optional(sm / busy) : std::nullopt;
}
inline constexpr double kTinyKernels = 0.55;

// Even while something runs it hardly works: tiny kernels, or waiting. A GPU that is fed well works
// between its gaps.
inline bool hardly_works_when_busy(const JobSignals& job, const Signals& signals) {
  constexpr double kHollow = 0.6;
  if (filled_while_busy(job, signals).value_or(1) < kTinyKernels) return true;
  return !job.members.empty() && std::ranges::all_of(job.members, [](const GpuInJob& member) {
    return member.hollow.value_or(0) > kHollow;
  });
}

// Stalls that come every so often, and not in every second step or so: those are lateness, not
// saving or evaluating. (Where the lanes' own period is that of the stalls, steps are too short to
// be seen: then they are rare too.)
inline bool stalls_are_rare(const JobSignals& job) {
  constexpr double kShortestPeriodMs = 4000;
  const double period = job.stalls.period_ms.value_or(0);
  if (job.stalls.all.size() < 2 || period < kShortestPeriodMs) return false;
  if (!job.fine || !job.fine->period_ms || job.fine->period_strength < 0.5) return true;
  const double steps = period / *job.fine->period_ms;
  return steps < 1.5 || steps > 2.9;
}

// written around a stall: a checkpoint, not a line of a log
inline constexpr double kBurstBytes = 20e6;

// Every so often all wait, and bytes are written meanwhile: the job saves itself.
inline bool stalls_write(const JobSignals& job) {
  const auto bursts = std::ranges::count_if(job.stalls.all, [](const Stall& stall) {
    return stall.written_bytes.value_or(0) > kBurstBytes;
  });
  return stalls_are_rare(job) && bursts * 2 >= static_cast<std::ptrdiff_t>(job.stalls.all.size());
}

// Idle time that is that of the saves: with no lanes finer than a step it is the only idle time to
// be seen.
inline bool idle_is_saving(const JobSignals& job) {
  return stalls_write(job) && job.idle_together < 1.3 * job.stalls.share;
}

// Empty GPUs that the job could use, too: not a card for the screen beside an H100, and not another
// machine's.
inline std::vector<int> empty_gpus_for(const JobSignals& job, const Signals& signals) {
  double needed = 0;
  for (const GpuInJob& member : job.members)
    needed = std::max(needed, member.memory_bytes.value_or(0));
  std::vector<int> usable;
  for (const GpuSignals& candidate : signals.gpus) {
    if (std::ranges::find(signals.free_gpus, candidate.index) == signals.free_gpus.end()) continue;
    const bool is_near = std::ranges::any_of(signals.gpus, [&](const GpuSignals& own) {
      return holds(job, own.index) && own.info.host == candidate.info.host;
    });
    const auto memory = candidate.info.memory_total_bytes;
    if (is_near && (!memory || static_cast<double>(*memory) >= needed))
      usable.push_back(candidate.index);
  }
  return usable;
}

// How many ranks the environment promises on this machine.
std::optional<int> promised_ranks(const JobSignals& job);

inline const ProcessSample* process_on(const JobSignals& job, int gpu) {
  for (const ProcessSample& process : job.processes)
    for (const ProcessOnGpu& use : process.gpus)
      if (use.index == gpu) return &process;
  return nullptr;
}

// JAX and TensorFlow drive all GPUs from one process, and take most of their memory at the start.
inline bool is_one_process_framework(const ProcessSample& process) {
  return process.libraries && std::ranges::any_of(*process.libraries, [](const std::string& name) {
           return name == "jax" || name == "tensorflow";
         });
}

// Started by something that sets ranks. Plain python, a shell or nothing known is no launcher.
inline bool has_launcher(const ProcessSample& process) {
  return process.launcher && *process.launcher != "python" && *process.launcher != "none" &&
         *process.launcher != "shell" && !process.launcher->empty();
}

inline std::string environment_of(const ProcessSample& process, const char* name) {
  if (!process.environment) return {};
  const auto entry = process.environment->find(name);
  return entry == process.environment->end() ? std::string() : entry->second;
}

// Over PCIe, to and from the job's GPUs.
struct OverPcie {
  double received = 0;  // bytes/s, mean of the job's GPUs
  double sent = 0;
};
inline OverPcie over_pcie(const JobSignals& job, const Signals& signals) {
  OverPcie rate;
  const auto gpus = static_cast<double>(std::max<std::size_t>(1, job.gpus.size()));
  for (const GpuSignals& gpu : signals.gpus)
    if (holds(job, gpu.index)) {
      rate.received += gpu.pcie_rx_bytes_s.value_or(0) / gpus;
      rate.sent += gpu.pcie_tx_bytes_s.value_or(0) / gpus;
    }
  return rate;
}
// Bytes a second: so many are tensors that the host copies in each step, which reads as busy (5.8e9
// on an H200 with 512 MB a step).
inline constexpr double kGigabytesArrive = 2e9;

}  // namespace lockstep
