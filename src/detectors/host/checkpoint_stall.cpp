// S303: training stands still while a checkpoint is written.
//
// Why it shows: every few minutes all GPUs stop working for a second or more (the saving rank's is
// empty, the others spin at the next collective), and the processes write a burst of bytes around
// that time. Confused with: evaluation-stall (no bytes written), a stuck collective (does not end),
// start-up and end (cut off stretches do not count). Blind: writes to object stores and by other
// processes do not show in /proc/<pid>/io.
#include "detectors/all_detectors.hpp"
#include "detectors/stack_tools.hpp"
#include "detectors/step_share.hpp"

namespace lockstep {
namespace {

// Saves that are too short or too frequent for stalls of a second: looks find the main thread in a
// write again and again, and many bytes go out.
std::optional<Finding> checkpoint_by_looks(const JobSignals& job) {
  constexpr double kWritesAtLeast = 0.03;
  constexpr double kManyBytes = 5e6;  // a second: no log
  constexpr double kComputesAtLeast = 0.05;
  if (stacks_tell(job)) {
    auto finding =
        found_by_stacks(FindingCode::checkpoint_stall, StepPart::checkpoint, job, kWritesAtLeast);
    if (finding || !own_code_saves(job)) return finding;
    finding = found_by_stacks(FindingCode::checkpoint_stall, StepPart::other, job, kWritesAtLeast);
    if (finding)
      finding->evidence.push_back({"written", *job.host.write_bytes_s, kBytesOfASave, "bytes/s"});
    return finding;
  }
  if (!job.host.doing || job.host.write_bytes_s.value_or(0) < kManyBytes) return std::nullopt;
  // Writing to memory that the kernel puts on disk later looks like computing.
  const HostDoing& doing = *job.host.doing;
  if (doing.computing >= kComputesAtLeast && *job.host.write_bytes_s > kBytesOfASave)
    return about_job(FindingCode::checkpoint_stall, job, Severity::warning, 0.7,
                     idle_of(job) - doing.sleeping - doing.talking - doing.for_another,
                     {{"main_thread_runs_while_gpus_rest", job.host.doing->computing,
                       kComputesAtLeast, "fraction"},
                      {"written", *job.host.write_bytes_s, kBytesOfASave, "bytes/s"}});
  if (job.host.doing->writing < kWritesAtLeast) return std::nullopt;
  return about_job(FindingCode::checkpoint_stall, job, Severity::warning, sure_if_joined(job, 0.75),
                   job.host.doing->writing,
                   {{"main_thread_writes", job.host.doing->writing, kWritesAtLeast, "fraction"},
                    {"written", *job.host.write_bytes_s, kManyBytes, "bytes/s"}});
}

std::optional<Finding> checkpoint_from_outside(const JobSignals& job, const Signals& signals) {
  const StallSignals& stalls = job.stalls;
  if (!stalls_write(job)) return checkpoint_by_looks(job);
  double length = 0;
  double bytes = 0;
  for (const Stall& stall : stalls.all) {
    length += (stall.to_ms - stall.from_ms) / static_cast<double>(stalls.all.size());
    bytes += stall.written_bytes.value_or(0) / static_cast<double>(stalls.all.size());
  }
  return about_job(FindingCode::checkpoint_stall, job, Severity::warning,
                   is_coarse(signals) ? 0.45 : 0.8, stalls.share,
                   {{"stalls", static_cast<double>(stalls.all.size()), 2.0, "stalls"},
                    {"stall_ms", length, std::nullopt, "ms"},
                    {"period_ms", *stalls.period_ms, std::nullopt, "ms"},
                    {"written_around_each", bytes, kBurstBytes, "bytes"}});
}

}  // namespace

std::vector<Finding> find_checkpoint_stall(const Seen& seen) {
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < seen.signals.jobs.size(); ++i) {
    const JobSignals& job = seen.signals.jobs[i];
    if (!steps_can_be_judged(seen, i) || !trains(job)) continue;
    auto finding =
        job.steps && job.steps->count >= 5
            ? by_step_share({FindingCode::checkpoint_stall, StepPart::checkpoint, 0.02}, job)
            : checkpoint_from_outside(job, seen.signals);
    if (finding) findings.push_back(std::move(*finding));
  }
  return findings;
}

}  // namespace lockstep
