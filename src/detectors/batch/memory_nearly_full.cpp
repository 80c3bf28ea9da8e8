// B502: a GPU of the job has next to no memory left.
//
// Why it shows: used over total memory, at its highest. PyTorch's allocator keeps what it once had,
// so 90 % is nothing to speak of; at 97 % and more the next long batch fails, or the allocator
// frees and asks again in every step. Confused with: JAX and TensorFlow, which take 75 to 100 % at
// the start on purpose (left out), inference servers too.
#include "detectors/all_detectors.hpp"
#include "detectors/finding_tools.hpp"

namespace lockstep {
namespace {

constexpr double kFull = 0.97;

bool takes_all_on_purpose(const JobSignals& job) {
  return job.serves || std::ranges::any_of(job.processes, is_one_process_framework);
}

}  // namespace

std::vector<Finding> find_memory_nearly_full(const Seen& seen) {
  std::vector<Finding> findings;
  for (const JobSignals& job : seen.signals.jobs) {
    if (!job.active || takes_all_on_purpose(job) || job.origin == JobOrigin::foreign) continue;
    std::vector<int> full;
    double most = 0;
    for (const GpuSignals& gpu : seen.signals.gpus) {
      if (!holds(job, gpu.index)) continue;
      const double used = gpu.memory_highest_fraction.value_or(0);
      if (used < kFull || used > 1.05) continue;  // more than all there is: a broken reading
      full.push_back(gpu.index);
      most = std::max(most, used);
    }
    if (full.empty()) continue;
    Finding finding = about_job(FindingCode::memory_nearly_full, job, Severity::warning,
                                job.origin == JobOrigin::likeness ? 0.45 : 0.7, 0,
                                {{"memory_highest", most, kFull, "fraction"}});
    finding.gpus = full;
    // Below 1 the batch is larger than what fits with some slack; above it the allocator's cache
    // fills the GPU, not the training.
    if (job.settings && job.settings->batch_room)
      finding.evidence.push_back(
          {"batch_could_grow", *job.settings->batch_room, std::nullopt, "times"});
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace lockstep
