// S306: Python's garbage collector stops a rank now and then, and the others wait for it.
//
// Why it shows: a full collection takes 50 to 500 ms on a large program, at a different step on
// each rank, so with n ranks the job stops n times as often. Step marks show it; from outside it
// looks like any late step, unless Python stacks find a line that collects.
#include "detectors/all_detectors.hpp"
#include "detectors/stack_tools.hpp"
#include "detectors/step_share.hpp"

namespace lockstep {

std::vector<Finding> find_stopped_by_collector(const Seen& seen) {
  constexpr double kWorthNaming = 0.03;
  std::vector<Finding> findings;
  for (const JobSignals& job : seen.signals.jobs)
    if (auto finding = by_step_share({FindingCode::stopped_by_collector, StepPart::gc, 0.02}, job))
      findings.push_back(std::move(*finding));
  for (std::size_t i = 0; i < seen.signals.jobs.size(); ++i) {
    const JobSignals& job = seen.signals.jobs[i];
    if (!steps_can_be_judged(seen, i) || !trains(job) || !stacks_tell(job)) continue;
    if (auto finding =
            found_by_stacks(FindingCode::stopped_by_collector, StepPart::gc, job, kWorthNaming))
      findings.push_back(std::move(*finding));
  }
  return findings;
}

}  // namespace lockstep
