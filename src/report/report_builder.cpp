#include "report/report_builder.hpp"

#include <algorithm>
#include <map>
#include <string>

namespace lockstep {
namespace {

bool ended_lost(const Timeline& timeline, int gpu) {
  bool lost = false;
  for (const EventAt& entry : timeline.events) {
    if (entry.event.gpu != gpu) continue;
    if (entry.event.kind == "lost") lost = true;
    if (entry.event.kind == "recovered") lost = false;
  }
  return lost;
}

// Quantities that were asked for and never had, where the source did not already say why.
void add_missing(const Timeline& timeline, std::vector<NotMeasured>& list) {
  std::map<std::string, std::vector<int>> gpus_of;
  for (const GpuTrack& gpu : timeline.gpus)
    for (const MissingSeries& missing : gpu.missing) gpus_of[missing.signal].push_back(gpu.info.index);
  for (const auto& [signal, gpus] : gpus_of) {
    const bool explained = std::any_of(list.begin(), list.end(), [&, &name = signal](const NotMeasured& entry) {
      return entry.signal.find(name) != std::string::npos || entry.signal == "all";
    });
    if (explained) continue;
    std::string which;
    for (const int gpu : gpus) which += (which.empty() ? "" : ", ") + std::to_string(gpu);
    list.push_back({signal, "no value in the input for GPU " + which});
  }
}

}  // namespace

Report build_report(const Timeline& timeline, const Signals& signals) {
  Report report;
  report.source_kind = timeline.source_kind;
  report.source_detail = timeline.source_detail;
  report.duration_s = signals.duration_s;
  for (const GpuTrack& track : timeline.gpus) {
    GpuReport gpu;
    gpu.info = track.info;
    gpu.latest = track.latest;
    gpu.lost = ended_lost(timeline, track.info.index);
    for (const GpuSignals& means : signals.gpus) {
      if (means.index != track.info.index) continue;
      gpu.busy = means.busy_fraction;
      gpu.memory_used_bytes = means.memory_used_bytes;
      gpu.power_mw = means.power_mw;
    }
    report.gpus.push_back(std::move(gpu));
  }
  if (!timeline.process_lists.empty()) report.processes = timeline.process_lists.back().processes;
  for (const EventAt& entry : timeline.events) report.events.push_back(entry.event);
  report.not_measured = timeline.not_measured;
  add_missing(timeline, report.not_measured);
  return report;
}

}  // namespace lockstep
