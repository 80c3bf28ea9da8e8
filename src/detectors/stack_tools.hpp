// What detectors ask of Python stacks that were taken from outside.
#pragma once

#include <optional>

#include "detectors/probe_tools.hpp"

namespace lockstep {

// Enough of them to say where the main thread is while the GPUs rest. Step marks tell more.
inline bool stacks_tell(const JobSignals& job) {
  return job.host.doing && !job.host.doing->stacks.empty() && !(job.steps && job.steps->count >= 5);
}
// Enough to say where it is not.
inline bool many_stacks(const JobSignals& job) {
  return stacks_tell(job) && job.host.doing->stacks_at_rest >= 20;
}

// The main thread was seen at loading while the GPUs rested, for so much of the time.
inline constexpr double kStarvedWaitShare = 0.05;  // of a step, as the PyTorch profiler's own rule
inline bool loads_data_at_rest(const JobSignals& job) {
  constexpr int kFewest = 3;  // a single one may be a chance
  const StackPart* const seen = job.host.doing->by_stacks(StepPart::data_wait);
  return seen != nullptr && seen->lost >= kStarvedWaitShare && seen->samples >= kFewest;
}
// It was never seen there, or hardly ever. If loading took half of the rest, six stacks and more
// would all have missed it once in 64 times.
inline bool stacks_say_it_is_not_data(const JobSignals& job) {
  if (!stacks_tell(job)) return false;
  const StackPart* const seen = job.host.doing->by_stacks(StepPart::data_wait);
  return seen == nullptr || (many_stacks(job) && seen->samples < 2);
}

// Code of one's own while so many bytes are written saves, whatever its functions are called:
// copies to the host, the writing itself, a rename that waits for the disk.
inline constexpr double kBytesOfASave = 5e7;  // a second
inline bool own_code_saves(const JobSignals& job) {
  return stacks_tell(job) && job.host.write_bytes_s.value_or(0) > kBytesOfASave &&
         job.host.doing->by_stacks(StepPart::other) != nullptr;
}

// So much that data is what it is about. Who writes a save waits for the disk, too.
inline bool reads_much(const HostSignals& host) {
  constexpr double kMuch = 20e6;  // bytes a second, all ranks
  const bool saves = host.write_bytes_s.value_or(0) > kBytesOfASave;
  return host.read_bytes_s.value_or(0) > kMuch || (host.waiting_for_disk > 0.1 && !saves);
}

// Where no moment could be joined with the GPUs' rest, what the host does may be hidden behind
// their work.
inline double sure_if_joined(const JobSignals& job, double confidence) {
  return job.host.doing && job.host.doing->joined ? confidence : std::min(confidence, 0.45);
}

// Python was in the model, the backward pass or the optimizer while the GPUs rested.
struct LaunchingAtRest {
  double lost = 0;
  int samples = 0;
};
inline LaunchingAtRest launching_at_rest(const JobSignals& job) {
  LaunchingAtRest launching;
  for (const StepPart part : {StepPart::forward, StepPart::backward, StepPart::optimizer})
    if (const StackPart* const seen = job.host.doing->by_stacks(part)) {
      launching.lost += seen->lost;
      launching.samples += seen->samples;
    }
  return launching;
}

// A host that waits for the GPU in each step has an empty queue whenever it goes on.
inline constexpr double kSyncsOften = 0.15;  // of all stacks
inline bool syncs_often(const JobSignals& job) {
  return job.host.doing->share_of_all_stacks(StepPart::sync) >= kSyncsOften;
}

// The GPUs rest for moments too short to be seen one by one; many stacks say what the host does all
// the time.
inline bool only_all_stacks_tell(const JobSignals& job) {
  constexpr int kMany = 40;
  return job.host.doing && job.host.doing->stacks.empty() &&
         job.host.doing->stacks_in_all >= kMany && !(job.steps && job.steps->count >= 5);
}

inline double launching_of_all_stacks(const JobSignals& job) {
  double share = 0;
  for (const StepPart part : {StepPart::forward, StepPart::backward, StepPart::optimizer})
    share += job.host.doing->share_of_all_stacks(part);
  return share;
}

// It launches kernels all the time, waits neither for the GPU nor for data, and the GPU has rests:
// the host sets the pace.
inline constexpr double kLaunchesAllTheTime = 0.6;
inline bool launches_all_the_time(const JobSignals& job) {
  constexpr double kElsewhereAtMost = 0.1;
  return only_all_stacks_tell(job) && launching_of_all_stacks(job) >= kLaunchesAllTheTime &&
         !syncs_often(job) &&
         job.host.doing->share_of_all_stacks(StepPart::data_wait) < kElsewhereAtMost &&
         job.host.doing->share_of_all_stacks(StepPart::copy) < kElsewhereAtMost;
}

// Of the GPU time, while no GPU of the job ran anything.
inline double idle_of(const JobSignals& job) {
  return job.time ? job.time->idle_together : job.idle_together;
}

// The loader's workers hardly ever had an order: their queues were always full. Without workers, or
// without looks at them: `unknown`.
inline bool queues_always_full(const HostDoing& doing, bool unknown) {
  constexpr double kNeverAtWork = 0.05;  // of all looks at them
  return doing.workers_ever_at_work ? *doing.workers_ever_at_work <= kNeverAtWork : unknown;
}

// Looks at the threads say that it waits for so long while the GPUs rest: a few stacks then say
// where.
inline bool looks_agree(const JobSignals& job, double lost) {
  const HostDoing& doing = *job.host.doing;
  return doing.joined &&
         doing.sleeping + doing.talking + doing.writing + doing.reading >= 0.6 * lost;
}

// A job that has stopped: once, and nobody knows for how long.
inline void tell_stop(Finding& finding, const JobSignals& job) {
  if (job.stopped_ms)
    finding.evidence.push_back(
        {std::string(kNothingHasRun), job.to_ms - *job.stopped_ms, std::nullopt, "ms"});
}

// The main thread was in this part of its step while the GPUs rested.
inline std::optional<Finding> found_by_stacks(FindingCode code, StepPart part,
                                              const JobSignals& job, double at_least) {
  constexpr int kFewest = 3;  // a single one may be a chance
  const StackPart* const seen = job.host.doing->by_stacks(part);
  if (seen == nullptr || seen->lost < at_least || seen->samples < kFewest) return std::nullopt;
  Finding finding = about_job(
      code, job, seen->lost > 0.3 ? Severity::critical : Severity::warning,
      many_stacks(job) || looks_agree(job, seen->lost) ? 0.85 : 0.58, seen->lost,
      {{"there_while_the_gpus_rested", seen->lost, at_least, "fraction"},
       {"stacks", static_cast<double>(seen->samples), static_cast<double>(kFewest), "samples"}});
  if (!seen->place.file.empty()) name_line(finding, seen->place);
  tell_stop(finding, job);
  return finding;
}

}  // namespace lockstep
