// P101: GPUs of one job work one after the other instead of together.
//
// Why it shows: a model split over GPUs by layers passes activations forward and gradients back, so each GPU waits for
// the one before it (see pattern.cpp for how turns are told from steps).
// What it costs: with n GPUs and one working at a time, the work of one GPU is done. Were each GPU to do the same share
// of time in parallel, n times as much would be.
// Confused with: DataParallel (one-gpu-leads), ranks that wait in NCCL (straggler-rank), a pipeline with micro-batches.
// Blind: turns under about 30 ms on power samples, under 400 ms on utilization alone.
#include "detectors/all_detectors.hpp"
#include "detectors/finding_tools.hpp"

namespace lockstep {

std::vector<Finding> find_taking_turns(const Seen& seen) {
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < seen.signals.jobs.size(); ++i) {
    const JobSignals& job = seen.signals.jobs[i];
    if (pattern_of(seen, i) != Pattern::taking_turns || job.serves) continue;
    // What the busiest would be if all did its share at once: the time in which any of them works.
    const double any = std::min(1.0, std::max(job.busy_sum, job.fine ? job.fine->any_active : 0.0));
    const double lost = any * (1 - 1.0 / static_cast<double>(job.gpus.size()));
    findings.push_back(about_job(FindingCode::taking_turns, job, Severity::critical, seen.verdicts[i].verdict.confidence, lost,
                                 seen.verdicts[i].evidence));
  }
  return findings;
}

}  // namespace lockstep
