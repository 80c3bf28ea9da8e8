// B505: the optimizer updates the parameters in many kernels, where one would do.
//
// Why it shows: a probe reads the optimizer's settings and times its step. On a GPU the fused kinds
// of Adam, AdamW and SGD update all tensors in a few launches; the others take several a group. It
// matters where the update is a visible part of the step. Confused with: optimizers that have no
// fused kind; updates on the CPU.
#include "detectors/all_detectors.hpp"
#include "detectors/probe_tools.hpp"

namespace lockstep {

std::vector<Finding> find_unfused_optimizer(const Seen& seen) {
  constexpr double kShareAtLeast = 0.05;
  constexpr double kSaved = 0.4;  // of the update: fused against foreach AdamW, order of magnitude
  std::vector<Finding> findings;
  for (const JobSignals& job : seen.signals.jobs) {
    if (!is_probed(job) || !job.settings || !job.settings->on_gpu ||
        job.settings->optimizer_fused || !job.settings->optimizer_can_fuse)
      continue;
    const double share = job.steps->share[index_of(StepPart::optimizer)];
    if (share < kShareAtLeast) continue;
    Finding finding = about_job(
        FindingCode::unfused_optimizer, job, Severity::info, 0.6, kSaved * share,
        {{"optimizer_share", share, kShareAtLeast, "fraction"},
         {"parameter_tensors", job.settings->parameter_tensors, std::nullopt, "tensors"}});
    name_places(finding, job, main_places(job, StepPart::optimizer));
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace lockstep
