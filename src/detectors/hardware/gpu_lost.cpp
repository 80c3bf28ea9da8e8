// H605: a GPU stopped answering (fell off the bus), or its readings ended while the others went on.
//
// Why it shows: the driver says GPU_IS_LOST, an event of kind `lost`; Xid 79, which says the same
// ("fallen off the bus"); or, in other tools' logs, a GPU that is no longer listed. One that came
// back is a fault all the same: what ran on it is gone, and it costs the time it was away. Confused
// with: a log that was cut (all GPUs end at once), MIG slices that were taken away.
#include <map>

#include "detectors/all_detectors.hpp"
#include "detectors/finding_tools.hpp"

namespace lockstep {

namespace {

struct Absence {
  double from_ms = 0;
  std::optional<double> until_ms;  // nothing: for good
};

bool says_lost(const Event& event) {
  constexpr std::string_view kFallenOffTheBus = "79";
  return event.kind == "lost" || (event.kind == "xid" && event.detail == kFallenOffTheBus);
}

}  // namespace

std::vector<Finding> find_gpu_lost(const Seen& seen) {
  std::map<int, Absence> absences;  // the first of each GPU, and its latest return
  for (const EventAt& entry : seen.signals.events) {
    if (!entry.event.gpu) continue;
    if (says_lost(entry.event))
      absences.try_emplace(*entry.event.gpu, Absence{entry.t_ms, std::nullopt})
          .first->second.until_ms.reset();
    const auto absence = absences.find(*entry.event.gpu);
    if (entry.event.kind == "recovered" && absence != absences.end())
      absence->second.until_ms = entry.t_ms;
  }
  std::vector<Finding> findings;
  const double share =
      seen.signals.gpus.empty() ? 0 : 1 / static_cast<double>(seen.signals.gpus.size());
  for (const auto& [gpu, absence] : absences) {
    std::vector<Evidence> evidence = {{"lost_at", absence.from_ms / 1e3, std::nullopt, "s"}};
    double away = 1;
    if (absence.until_ms) {
      evidence.push_back({"back_at", *absence.until_ms / 1e3, std::nullopt, "s"});
      away = seen.signals.duration_s > 0
                 ? (*absence.until_ms - absence.from_ms) / 1e3 / seen.signals.duration_s
                 : 0;
    }
    findings.push_back(about_gpu(FindingCode::gpu_lost, gpu, Severity::critical,
                                 absence.until_ms ? 0.9 : 0.98, share * away, std::move(evidence)));
  }
  for (const GpuSignals& gpu : seen.signals.gpus)
    if (gpu.vanished && !gpu.info.mig && !absences.contains(gpu.index))
      findings.push_back(about_gpu(FindingCode::gpu_lost, gpu.index, Severity::critical, 0.7, share,
                                   {{"readings_ended", 1, std::nullopt, "yes"}}));
  return findings;
}

}  // namespace lockstep
