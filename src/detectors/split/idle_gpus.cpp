// P103: a job trains while other GPUs that it could use hold no process and no memory for the whole
// run.
//
// Why it shows: a script started with plain `python` uses the first GPU only; the others stay
// empty. Confused with: GPUs that somebody else reserved but does not use yet, GPUs that a
// scheduler or CUDA_VISIBLE_DEVICES keeps from the job (then it is a suspicion only). Never when
// nothing runs at all. Blind: with a partial process list a GPU that holds next to no memory and
// never works is taken as empty.
#include "detectors/all_detectors.hpp"
#include "detectors/finding_tools.hpp"

namespace lockstep {
namespace {

bool is_kept_to_its_gpus(const JobSignals& job) {
  return std::ranges::any_of(job.processes, [&](const ProcessSample& process) {
    if (!environment_of(process, "SLURM_JOB_ID").empty()) return true;
    const std::string visible = environment_of(process, "CUDA_VISIBLE_DEVICES");
    if (visible.empty()) return false;
    const auto named = std::ranges::count(visible, ',') + 1;
    // a launcher that gives each rank one GPU says nothing about the job
    if (named == 1 && process.local_rank) return false;
    return named <= static_cast<std::ptrdiff_t>(job.gpus.size());
  });
}

// What a cluster gave to a job and the job never uses: nobody else can have it. A job of which
// nothing works at all counts where others of the fleet do, so that a fleet at rest is no finding.
std::vector<Finding> held_and_idle(const Seen& seen) {
  constexpr std::size_t kReadings = 20;  // five minutes at 15 s: loading a model takes some
  constexpr double kNeverBusy = 0.02;
  std::vector<Finding> findings;
  if (seen.signals.ticks < kReadings) return findings;
  const bool anybody_works =
      std::ranges::any_of(seen.signals.jobs, [](const JobSignals& job) { return job.active; });
  for (const JobSignals& job : seen.signals.jobs) {
    if (job.origin != JobOrigin::cluster || !anybody_works) continue;
    std::vector<int> idle;
    for (const GpuSignals& gpu : seen.signals.gpus)
      if (holds(job, gpu.index) && gpu.busy_highest && *gpu.busy_highest <= kNeverBusy &&
          gpu.looks >= kReadings && !gpu.vanished)
        idle.push_back(gpu.index);
    if (idle.empty()) continue;
    const double share = static_cast<double>(idle.size()) / static_cast<double>(job.gpus.size());
    Finding finding =
        about_job(FindingCode::idle_gpus, job, Severity::warning, 0.85, share,
                  {{"idle_gpus", static_cast<double>(idle.size()), 0.0, "GPUs"},
                   {"job_gpus", static_cast<double>(job.gpus.size()), std::nullopt, "GPUs"}});
    finding.gpus = idle;
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace

std::vector<Finding> find_idle_gpus(const Seen& seen) {
  const Signals& signals = seen.signals;
  if (std::ranges::any_of(signals.jobs,
                          [](const JobSignals& job) { return job.origin == JobOrigin::cluster; }))
    return held_and_idle(seen);
  if (signals.free_gpus.empty() || signals.ticks < 4) return {};
  const JobSignals* largest = nullptr;
  for (const JobSignals& job : signals.jobs)
    if (trains(job) && (largest == nullptr || job.gpus.size() > largest->gpus.size()))
      largest = &job;
  if (largest == nullptr) return {};
  const std::vector<int> usable = empty_gpus_for(*largest, signals);
  if (usable.empty()) return {};
  const auto free = static_cast<double>(usable.size());
  const double all = free + static_cast<double>(largest->gpus.size());
  const bool listed = signals.process_coverage == ProcessCoverage::all && signals.processes_known;
  constexpr std::size_t kWholeRun = 8;  // readings: a few snapshots are not the whole run
  const double confidence = signals.ticks < kWholeRun       ? 0.4
                            : is_kept_to_its_gpus(*largest) ? 0.4
                            : listed                        ? 0.9
                                                            : 0.6;
  Finding finding =
      about_job(FindingCode::idle_gpus, *largest, Severity::warning, confidence, free / all,
                {{"idle_gpus", free, 0.0, "GPUs"},
                 {"job_gpus", static_cast<double>(largest->gpus.size()), std::nullopt, "GPUs"}});
  finding.gpus = usable;
  finding.ranks.clear();  // nobody is on them
  return {finding};
}

}  // namespace lockstep
