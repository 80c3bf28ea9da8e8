// P102: one process drives all GPUs with nn.DataParallel, and the first of them does more than the
// others.
//
// Why it shows: DataParallel scatters each batch from the first GPU, copies the model to the others
// in every step, and gathers outputs and gradients on the first again. So the first holds more
// memory (1.8 to 3.8 times in four real runs); how busy it is may be more or less than the others,
// so memory is the sign that can be relied on. What it costs: the time in which the replicas wait,
// as far as utilization shows it. Confused with: a split model (turns, the sum of busy fractions
// near 1); one process that drives all GPUs evenly (JAX). Blind: where neither memory nor processes
// are known.
#include "detectors/all_detectors.hpp"
#include "detectors/finding_tools.hpp"

namespace lockstep {

std::vector<Finding> find_one_gpu_leads(const Seen& seen) {
  // the copies of the model and the gathers, even when they hide in the readings
  constexpr double kLeastLoss = 0.05;
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < seen.signals.jobs.size(); ++i) {
    const JobSignals& job = seen.signals.jobs[i];
    if (pattern_of(seen, i) != Pattern::one_leads || job.serves) continue;
    const double busy = busy_on_average(job);
    findings.push_back(about_job(FindingCode::one_gpu_leads, job, Severity::warning,
                                 seen.verdicts[i].verdict.confidence,
                                 std::max(kLeastLoss, 1 - busy), seen.verdicts[i].evidence));
  }
  return findings;
}

}  // namespace lockstep
