// S301: the host waits for the GPU in every step (.item(), .cpu(), print(loss), torch.cuda.synchronize()).
//
// Why it shows: while the host waits it queues nothing, so after each wait the GPU has nothing to do until the next
// kernels are launched. Step marks measure the wait. From outside the gap is there too, but it looks like any short
// idle time that all ranks share: so without marks it is a suspicion, raised where input does not explain the gap.
// Confused with: input-starved, launch-bound. A profile decides.
#include "detectors/all_detectors.hpp"
#include "detectors/step_share.hpp"

namespace lockstep {

std::vector<Finding> find_host_sync_every_step(const Seen& seen) {
  constexpr double kIdleAtLeast = 0.05;
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < seen.signals.jobs.size(); ++i) {
    const JobSignals& job = seen.signals.jobs[i];
    if (!in_step_or_alone(pattern_of(seen, i)) || !trains(job)) continue;
    if (job.steps && job.steps->count >= 5) {
      if (auto finding = by_step_share({FindingCode::host_sync_every_step, "sync", 0.05, 0.9}, job)) findings.push_back(std::move(*finding));
      continue;
    }
    const double idle = job.idle_together;
    const bool host_busy = job.host.main_cpu.value_or(0) > 0.75 && job.host.loader_workers.value_or(0) > 0;
    if (idle < kIdleAtLeast || !host_busy || is_coarse(seen.signals)) continue;
    findings.push_back(about_job(FindingCode::host_sync_every_step, job, Severity::info, 0.35, idle,
                                 {{"idle_together", idle, kIdleAtLeast, "fraction"}, {"main_process_cpu", *job.host.main_cpu, 0.75, "cores"}}));
  }
  return findings;
}

}  // namespace lockstep
