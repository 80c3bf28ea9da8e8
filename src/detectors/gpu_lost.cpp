// H605: a GPU stopped answering (fell off the bus), or its readings ended while the others went on.
//
// Why it shows: the driver says GPU_IS_LOST, an event of kind `lost` with no `recovered` after it; or, in other tools'
// logs, a GPU that is no longer listed.
// Confused with: a log that was cut (all GPUs end at once), MIG slices that were taken away.
#include <map>

#include "detectors/all_detectors.hpp"
#include "detectors/finding_tools.hpp"

namespace lockstep {

std::vector<Finding> find_gpu_lost(const Seen& seen) {
  std::map<int, double> lost_at;
  for (const EventAt& entry : seen.signals.events) {
    if (!entry.event.gpu) continue;
    if (entry.event.kind == "lost") lost_at[*entry.event.gpu] = entry.t_ms;
    if (entry.event.kind == "recovered") lost_at.erase(*entry.event.gpu);
  }
  std::vector<Finding> findings;
  const double share = seen.signals.gpus.empty() ? 0 : 1 / static_cast<double>(seen.signals.gpus.size());
  for (const auto& [gpu, at] : lost_at)
    findings.push_back(about_gpu(FindingCode::gpu_lost, gpu, Severity::critical, 0.98, share, {{"lost_at", at / 1e3, std::nullopt, "s"}}));
  for (const GpuSignals& gpu : seen.signals.gpus)
    if (gpu.vanished && !gpu.info.mig && !lost_at.contains(gpu.index))
      findings.push_back(about_gpu(FindingCode::gpu_lost, gpu.index, Severity::critical, 0.7, share, {{"readings_ended", 1, std::nullopt, "yes"}}));
  return findings;
}

}  // namespace lockstep
