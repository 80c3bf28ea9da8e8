// X709: the job's processes want more cores than there are.
//
// Why it shows: a main process that is found runnable at nearly every look, yet gets well under one
// core, waits for a core to come free. Healthy ranks are runnable too, and get theirs. Confused
// with: a CPU quota of a container (the same in effect), processes that sleep a lot (found
// sleeping). Blind: with less than five looks at the processes.
#include "detectors/all_detectors.hpp"
#include "detectors/finding_tools.hpp"

namespace lockstep {

std::vector<Finding> find_cpu_oversubscribed(const Seen& seen) {
  constexpr double kRunnableAtLeast = 0.9;
  constexpr double kCpuAtMost = 0.75;
  constexpr int kLooksAtLeast = 5;
  constexpr double kIdleAtLeast = 0.05;  // without gaps on the GPUs it costs nothing
  std::vector<Finding> findings;
  for (const JobSignals& job : seen.signals.jobs) {
    const HostSignals& host = job.host;
    if (!trains(job) || host.looks < kLooksAtLeast || !host.main_cpu) continue;
    if (host.runnable < kRunnableAtLeast || *host.main_cpu > kCpuAtMost ||
        job.idle_together < kIdleAtLeast)
      continue;
    std::vector<Evidence> evidence = {{"runnable", host.runnable, kRunnableAtLeast, "fraction"},
                                      {"main_process_cpu", *host.main_cpu, kCpuAtMost, "cores"}};
    if (host.most_loader_workers)
      evidence.push_back({"loader_workers", static_cast<double>(*host.most_loader_workers),
                          std::nullopt, "processes"});
    const double lost = std::max(0.03, std::min(job.idle_together, 1 - *host.main_cpu));
    findings.push_back(about_job(FindingCode::cpu_oversubscribed, job, Severity::warning, 0.65,
                                 lost, std::move(evidence)));
  }
  return findings;
}

}  // namespace lockstep
