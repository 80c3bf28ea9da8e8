// D203: batches are copied to the GPU from ordinary memory, and the GPU waits for each copy.
//
// Why it shows: a copy from pageable memory cannot overlap with kernels, so bytes arrive over PCIe exactly while the GPU
// does nothing: the byte rate and the work are opposed. Pinned, non-blocking copies arrive while the GPU works.
// Confused with: parameters that are swapped in (offloading), all-reduce over PCIe (both directions at once, and the
// GPU reads busy).
// Blind: PCIe counters are read once a second at most outside `diagnose`; steps much shorter than that show no relation.
#include "detectors/all_detectors.hpp"
#include "detectors/finding_tools.hpp"

namespace lockstep {

std::vector<Finding> find_pageable_copies(const Seen& seen) {
  constexpr double kOpposedBelow = -0.5;
  constexpr double kBytesAtLeast = 3e8;  // a second: a batch of 8 images is 5 MB, text is nothing
  constexpr double kIdleAtLeast = 0.05;
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < seen.signals.jobs.size(); ++i) {
    const JobSignals& job = seen.signals.jobs[i];
    if (!in_step_or_alone(pattern_of(seen, i)) || !trains(job)) continue;
    if (job.steps && job.steps->count >= 5) {
      const double share = job.steps->share[step_part("copy")];
      if (share >= kIdleAtLeast)
        findings.push_back(about_job(FindingCode::pageable_copies, job, Severity::warning, 0.7, share, {{"copy_share", share, kIdleAtLeast, "fraction"}}));
      continue;
    }
    if (!job.copy_while_idle || *job.copy_while_idle > kOpposedBelow || job.idle_together < kIdleAtLeast) continue;
    double received = 0;
    double sent = 0;
    for (const GpuSignals& gpu : seen.signals.gpus)
      if (holds(job, gpu.index)) {
        received += gpu.pcie_rx_bytes_s.value_or(0) / static_cast<double>(job.gpus.size());
        sent += gpu.pcie_tx_bytes_s.value_or(0) / static_cast<double>(job.gpus.size());
      }
    if (received < kBytesAtLeast || sent > 0.7 * received) continue;
    findings.push_back(about_job(FindingCode::pageable_copies, job, Severity::warning, 0.55, 0.5 * job.idle_together,
                                 {{"copy_against_work", *job.copy_while_idle, kOpposedBelow, "correlation"},
                                  {"pcie_received", received, kBytesAtLeast, "bytes/s"}}));
  }
  return findings;
}

}  // namespace lockstep
