// C403: gradients are all-reduced in every micro-step of an accumulation, though only the last
// needs it.
//
// Why it shows: step marks of micro-steps have no optimizer part, yet they have a collective. With
// no_sync() only the step that ends in the optimizer would. Nothing shows it from outside: the
// bytes on the link do not tell for what.
#include "detectors/all_detectors.hpp"
#include "detectors/probe_tools.hpp"

namespace lockstep {

std::vector<Finding> find_sync_every_micro_step(const Seen& seen) {
  constexpr double kPassesAtLeast = 1.9;  // accumulation over two
  constexpr double kSyncedAtMost = 0.75;
  constexpr double kMicroStepsAtLeast = 0.4;  // accumulation over two steps has half
  constexpr double kWithCollectiveAtLeast = 0.8;
  std::vector<Finding> findings;
  for (const JobSignals& job : seen.signals.jobs) {
    if (!job.steps || job.steps->count < 5 || job.steps->ranks.size() < 2) continue;
    const StepSignals& steps = *job.steps;
    if (steps.passes_a_step >= kPassesAtLeast &&
        steps.synced_passes_a_step > kSyncedAtMost * steps.passes_a_step) {
      const double unneeded = 1 - 1 / steps.synced_passes_a_step;
      Finding finding =
          about_job(FindingCode::sync_every_micro_step, job, Severity::warning, 0.95,
                    std::max(0.02, steps.share[index_of(StepPart::collective_exposed)] * unneeded),
                    {{"passes_a_step", steps.passes_a_step, kPassesAtLeast, "passes"},
                     {"synced_passes_a_step", steps.synced_passes_a_step, 1.0, "passes"}});
      name_places(finding, job, main_places(job, StepPart::backward));
      findings.push_back(std::move(finding));
      continue;
    }
    if (steps.steps_without_optimizer < kMicroStepsAtLeast ||
        steps.micro_steps_with_collective < kWithCollectiveAtLeast)
      continue;
    const double removable =
        steps.share[index_of(StepPart::collective_exposed)] * steps.steps_without_optimizer;
    findings.push_back(about_job(
        FindingCode::sync_every_micro_step, job, Severity::warning, 0.85, std::max(removable, 0.02),
        {{"micro_steps", steps.steps_without_optimizer, kMicroStepsAtLeast, "fraction"},
         {"micro_steps_with_collective", steps.micro_steps_with_collective, kWithCollectiveAtLeast,
          "fraction"}}));
  }
  return findings;
}

}  // namespace lockstep
