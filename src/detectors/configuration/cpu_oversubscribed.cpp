// X709: the job's processes want more cores than there are.
//
// Why it shows: the kernel counts how long a thread could run and had no core (schedstat). Without
// that count: a main process that is found runnable at nearly every look, yet gets well under one
// core. Healthy ranks are runnable too, and get theirs. What it costs: while a rank waits for a
// core it launches nothing, so its GPU runs dry: the waiting, as far as GPUs were empty meanwhile.
// A job that never gets as far as its GPUs loses all of it. Confused with: a CPU quota of a
// container (the same in effect), processes that sleep a lot (found sleeping). Blind: without the
// count, with less than five looks at the processes.
#include "detectors/all_detectors.hpp"
#include "detectors/probe_tools.hpp"

namespace lockstep {
namespace {

// of the time; ranks on free cores wait 0.00 to 0.02
constexpr double kWaitsAtLeast = 0.1;

// a virtual GPU is a core itself, and shares it with all that runs
constexpr double kWaitsForVirtual = 0.35;

std::optional<Finding> short_of_cores(const JobSignals& job, const Signals& signals,
                                      Pattern pattern) {
  const HostSignals& host = job.host;
  const double least = signals.virtual_gpus ? kWaitsForVirtual : kWaitsAtLeast;
  if (host.waiting_for_cpu.value_or(0) < least || job.serves) return std::nullopt;
  const bool never_works = pattern == Pattern::idle || !job.active;
  const double idle = never_works ? 1 : job.time ? 1 - mean_working(job) : job.idle_together;
  std::vector<Evidence> evidence = {{"waits_for_a_core", *host.waiting_for_cpu, least, "fraction"}};
  if (host.main_cpu)
    evidence.push_back({"main_process_cpu", *host.main_cpu, std::nullopt, "cores"});
  if (host.most_loader_workers)
    evidence.push_back({"loader_workers", static_cast<double>(*host.most_loader_workers),
                        std::nullopt, "processes"});
  const double lost = std::min(idle, *host.waiting_for_cpu);
  return about_job(FindingCode::cpu_oversubscribed, job,
                   lost > 0.3 ? Severity::critical : Severity::warning, 0.8, lost,
                   std::move(evidence));
}

// By probes: of the rank that waits most, for the others wait for it. Without a GPU the training
// computes on the cores itself, and shares them with its loader.
std::optional<Finding> short_by_probes(const JobSignals& job, const Signals& signals) {
  constexpr double kWaitsWithoutGpu = 0.25;
  if (!job.settings || job.settings->waits_for_a_core.empty() || !job.steps) return std::nullopt;
  double most = 0;
  for (const auto& [rank, share] : job.settings->waits_for_a_core) most = std::max(most, share);
  const double least = signals.virtual_gpus ? kWaitsForVirtual
                       : job.gpus.empty()   ? kWaitsWithoutGpu
                                            : kWaitsAtLeast;
  if (most < least) return std::nullopt;
  const double lost = std::min(most, most_that_can_be_lost(job));
  Finding finding = about_job(FindingCode::cpu_oversubscribed, job,
                              lost > 0.3 ? Severity::critical : Severity::warning, 0.85, lost,
                              {{"waits_for_a_core", most, least, "fraction"}});
  std::vector<int> waiting;
  for (const auto& [rank, share] : job.settings->waits_for_a_core)
    if (share > 0.5 * most) waiting.push_back(rank);
  finding.ranks = std::move(waiting);
  finding.rung = 1;
  return finding;
}

std::optional<Finding> by_state(const JobSignals& job) {
  constexpr double kRunnableAtLeast = 0.9;
  constexpr double kCpuAtMost = 0.75;
  constexpr int kLooksAtLeast = 5;
  constexpr double kIdleAtLeast = 0.05;  // without gaps on the GPUs it costs nothing
  const HostSignals& host = job.host;
  if (!trains(job) || host.looks < kLooksAtLeast || !host.main_cpu) return std::nullopt;
  if (host.runnable < kRunnableAtLeast || *host.main_cpu > kCpuAtMost ||
      job.idle_together < kIdleAtLeast)
    return std::nullopt;
  std::vector<Evidence> evidence = {{"runnable", host.runnable, kRunnableAtLeast, "fraction"},
                                    {"main_process_cpu", *host.main_cpu, kCpuAtMost, "cores"}};
  if (host.most_loader_workers)
    evidence.push_back({"loader_workers", static_cast<double>(*host.most_loader_workers),
                        std::nullopt, "processes"});
  const double lost = std::max(0.03, std::min(job.idle_together, 1 - *host.main_cpu));
  return about_job(FindingCode::cpu_oversubscribed, job, Severity::warning, 0.65, lost,
                   std::move(evidence));
}

}  // namespace

std::vector<Finding> find_cpu_oversubscribed(const Seen& seen) {
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < seen.signals.jobs.size(); ++i) {
    const JobSignals& job = seen.signals.jobs[i];
    auto finding = short_by_probes(job, seen.signals);
    if (!finding)
      finding = job.host.waiting_for_cpu ? short_of_cores(job, seen.signals, pattern_of(seen, i))
                                         : by_state(job);
    if (finding) findings.push_back(std::move(*finding));
  }
  return findings;
}

}  // namespace lockstep
