// C408: ranks on GPUs exchange gradients with Gloo, through host memory, instead of NCCL.
//
// Why it shows: the processes have torch and no NCCL mapped, though several ranks train on GPUs.
// Each all-reduce then copies to the host, adds there and copies back, and the GPU is empty
// meanwhile. Confused with: ranks that never exchange anything. PyTorch's CUDA wheels map NCCL even
// when Gloo is used, so this is blind there: `lockstep profile` sees the backend. Never on virtual
// GPUs, which are CPUs.
#include "detectors/all_detectors.hpp"
#include "detectors/finding_tools.hpp"

namespace lockstep {
namespace {

bool has(const ProcessSample& process, const char* library) {
  return process.libraries &&
         std::ranges::find(*process.libraries, library) != process.libraries->end();
}

}  // namespace

std::vector<Finding> find_gloo_on_gpus(const Seen& seen) {
  // each sum takes the bytes to the host and back, with the GPU empty
  constexpr double kIdleAtLeast = 0.05;
  std::vector<Finding> findings;
  if (seen.signals.virtual_gpus) return findings;
  for (std::size_t i = 0; i < seen.signals.jobs.size(); ++i) {
    const JobSignals& job = seen.signals.jobs[i];
    if (!trains(job) || job.gpus.size() < 2 || job.processes.size() < 2) continue;
    const bool without_nccl = std::ranges::all_of(job.processes, [](const ProcessSample& process) {
      return has(process, "torch") && !has(process, "nccl");
    });
    if (!without_nccl || job.idle_together < kIdleAtLeast) continue;
    const bool named = std::ranges::any_of(
        job.processes, [](const ProcessSample& process) { return has(process, "gloo"); });
    findings.push_back(
        about_job(FindingCode::gloo_on_gpus, job, Severity::warning, named ? 0.85 : 0.6,
                  std::max(0.05, job.idle_together),
                  {{"ranks_without_nccl", static_cast<double>(job.processes.size()), 0.0, "ranks"},
                   {"idle_together", job.idle_together, std::nullopt, "fraction"}}));
  }
  return findings;
}

}  // namespace lockstep
