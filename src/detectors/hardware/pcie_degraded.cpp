// H603: one GPU's PCIe link is slower than those of its twins.
//
// Why it shows: ranks of one job receive the same amount of data; when one GPU's highest rate stays
// at half of the others' or less, and the others do reach a high rate, its link runs with fewer
// lanes or an older generation. Confused with: a rank that simply receives less (uneven shards),
// which shows in its mean rate too but not as a rate that never exceeds a ceiling. The link's own
// width and generation settle it: `lockstep doctor`, `nvidia-smi -q`. Blind: without byte counters,
// and where nobody copies much.
#include "base/median.hpp"
#include "detectors/all_detectors.hpp"
#include "detectors/finding_tools.hpp"

namespace lockstep {

std::vector<Finding> find_pcie_degraded(const Seen& seen) {
  constexpr double kOthersAtLeast = 3e9;  // a second: below, no link is near its ceiling
  constexpr double kOwnAtMost = 0.55;     // of the others': half the lanes are half the rate
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < seen.signals.jobs.size(); ++i) {
    const JobSignals& job = seen.signals.jobs[i];
    if (job.gpus.size() < 2 || !in_step_or_alone(pattern_of(seen, i))) continue;
    for (const GpuSignals& gpu : seen.signals.gpus) {
      if (!holds(job, gpu.index) || !gpu.pcie_rx_peak_bytes_s) continue;
      std::vector<double> others;
      for (const GpuSignals& other : seen.signals.gpus)
        if (other.index != gpu.index && holds(job, other.index) && other.pcie_rx_peak_bytes_s)
          others.push_back(*other.pcie_rx_peak_bytes_s);
      if (others.empty()) continue;
      const double usual = middle_value(std::move(others));
      if (usual < kOthersAtLeast || *gpu.pcie_rx_peak_bytes_s > kOwnAtMost * usual) continue;
      findings.push_back(
          about_gpu(FindingCode::pcie_degraded, gpu.index, Severity::warning, 0.6, 0.05,
                    {{"pcie_peak", *gpu.pcie_rx_peak_bytes_s, kOwnAtMost * usual, "bytes/s"},
                     {"pcie_peak_of_others", usual, kOthersAtLeast, "bytes/s"}}));
    }
  }
  return findings;
}

}  // namespace lockstep
