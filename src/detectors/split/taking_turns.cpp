// P101: GPUs of one job work one after the other instead of together.
//
// Why it shows: a model split over GPUs by layers passes activations forward and gradients back, so
// each GPU waits for the one before it (see pattern.cpp for how turns are told from steps). What it
// costs: with n GPUs and one working at a time, the work of one GPU is done. Were each GPU to do
// the same share of time in parallel, n times as much would be. Confused with: DataParallel
// (one-gpu-leads), ranks that wait in NCCL (straggler-rank), a pipeline with micro-batches. Blind:
// turns under about 30 ms on power samples, under 400 ms on utilization alone.
#include "detectors/all_detectors.hpp"
#include "detectors/finding_tools.hpp"

namespace lockstep {

std::vector<Finding> find_taking_turns(const Seen& seen) {
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < seen.signals.jobs.size(); ++i) {
    const JobSignals& job = seen.signals.jobs[i];
    if (pattern_of(seen, i) != Pattern::taking_turns || (job.serves && !job.in_a_notebook))
      continue;
    // What the busiest would be if all did its share at once: the time in which any of them works.
    double any = std::min(1.0, std::max(job.busy_sum, job.fine ? job.fine->any_active : 0.0));
    auto gpus = static_cast<double>(job.gpus.size());
    const RankDevices* const recorded =
        job.steps && job.steps->devices && job.steps->devices->ranks.size() == 1
            ? &job.steps->devices->ranks.front()
            : nullptr;
    if (recorded != nullptr) {
      any = recorded->any_computes();
      gpus = std::max(gpus, static_cast<double>(recorded->devices.size()));
    }
    if (job.spread && job.spread->turns) {  // machines take turns: a whole machine works at a time
      gpus = static_cast<double>(job.spread->hosts.size());
      any = std::min(1.0, std::max(job.spread->busy_sum, job.spread->turns->any_active));
    }
    Finding finding = about_job(FindingCode::taking_turns, job, Severity::critical,
                                seen.verdicts[i].verdict.confidence,
                                any * (1 - 1 / std::max(2.0, gpus)), seen.verdicts[i].evidence);
    if (recorded != nullptr) finding.rung = 2;
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace lockstep
