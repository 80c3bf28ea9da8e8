// L802: several programs compute on one GPU at the same time.
//
// Why it shows: the process list has two jobs with a model's memory on the same GPU, and both their
// main processes are at work. The GPU gives each a slice of time in turn, so each gets about its
// part. Confused with: ranks of one job on one GPU (P104), a program that holds memory and rests (a
// notebook: it costs no time), MIG slices (indices of their own), MPS (kernels run side by side and
// may cost less). Blind: how much each gets is not in the readings; equal parts are assumed (two
// trainings of GPT-2 on an H200 took 2.2 times as long each).
#include <map>

#include "detectors/all_detectors.hpp"
#include "detectors/finding_tools.hpp"

namespace lockstep {

std::vector<Finding> find_gpu_held_by_others(const Seen& seen) {
  constexpr double kHoldsAModel = 1.5e9;  // bytes; a context alone is 0.4 to 1.4 GB
  constexpr double kAtWork = 0.3;         // of a core
  constexpr double kBusyAtLeast = 0.9;    // else there is room for both
  std::map<int, std::vector<const JobSignals*>> at_work_on;
  for (const JobSignals& job : seen.signals.jobs) {
    if (job.origin != JobOrigin::processes || !job.active ||
        job.host.main_cpu.value_or(0) < kAtWork)
      continue;
    for (const GpuInJob& member : job.members) {
      double held = 0;
      for (const ProcessSample& process : job.processes)
        for (const ProcessOnGpu& use : process.gpus)
          if (use.index == member.index) held += static_cast<double>(use.memory_bytes.value_or(0));
      if (held > kHoldsAModel && member.busy.value_or(0) > kBusyAtLeast)
        at_work_on[member.index].push_back(&job);
    }
  }
  std::vector<Finding> findings;
  for (const auto& [gpu, jobs] : at_work_on) {
    if (jobs.size() < 2) continue;
    const auto programs = static_cast<double>(jobs.size());
    JobSignals all;
    all.gpus = {gpu};
    for (const JobSignals* const job : jobs)
      all.pids.insert(all.pids.end(), job->pids.begin(), job->pids.end());
    // A job of several GPUs waits for the slowest of them.
    findings.push_back(about_job(FindingCode::gpu_held_by_others, all, Severity::warning, 0.75,
                                 1 - 1 / programs,
                                 {{"programs_at_work_on_it", programs, 1.0, "processes"}}));
  }
  return findings;
}

}  // namespace lockstep
