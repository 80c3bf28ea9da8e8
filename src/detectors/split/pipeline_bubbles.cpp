// P106: a pipeline whose stages stand still while it fills and drains.
//
// Why it shows: with m micro-batches and n stages each stage works m of m+n-1 slots; the rest is
// the bubble. The lanes have one shape, each later than the one before, and every lane has the same
// hole. Confused with: a split model without micro-batches, which is a pipeline with one
// (taking-turns). Blind: where the lanes are too coarse to show the stagger, the pattern is not
// called a pipeline at all.
#include "detectors/all_detectors.hpp"
#include "detectors/finding_tools.hpp"

namespace lockstep {

std::vector<Finding> find_pipeline_bubbles(const Seen& seen) {
  // 1F1B with 4 stages and 32 micro-batches: 3/35 = 0.09 is good practice
  constexpr double kWorthNaming = 0.12;
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < seen.signals.jobs.size(); ++i) {
    const JobSignals& job = seen.signals.jobs[i];
    if (pattern_of(seen, i) != Pattern::pipeline || job.serves || !job.fine) continue;
    // A stage that waits in NCCL spins, and reads busy.
    const double works = job.time && job.time->resolved
                             ? std::min(busy_on_average(job), mean_working(job))
                             : busy_on_average(job);
    const double bubble = 1 - works;
    if (bubble < kWorthNaming) continue;
    findings.push_back(about_job(FindingCode::pipeline_bubbles, job, Severity::warning, 0.7, bubble,
                                 {{"bubble", bubble, kWorthNaming, "fraction"}}));
  }
  return findings;
}

}  // namespace lockstep
