#include "signals/busy_fraction.hpp"

#include <algorithm>

namespace lockstep {
namespace {

// A reading stands for the time since the one before it, but not for time in a gap: nothing is known of that.
std::optional<double> mean_over_time(const Series<double>& series, const std::vector<Gap>& gaps) {
  if (series.empty()) return std::nullopt;
  double sum = 0;
  double weight = 0;
  for (std::size_t i = 1; i < series.size(); ++i) {
    const double from = series.t_ms[i - 1];
    const double to = series.t_ms[i];
    double covered = std::max(0.0, to - from);
    for (const Gap& gap : gaps) covered -= std::max(0.0, std::min(to, gap.to_ms) - std::max(from, gap.from_ms));
    if (covered <= 0) continue;
    sum += series.values[i] * covered;
    weight += covered;
  }
  if (weight > 0) return sum / weight;
  return series.values.back();  // one reading, or all at one moment
}

}  // namespace

Signals gpu_means(const Timeline& timeline) {
  Signals signals;
  signals.duration_s = (timeline.to_ms - timeline.from_ms) / 1e3;
  for (const GpuTrack& gpu : timeline.gpus) {
    GpuSignals means;
    means.index = gpu.info.index;
    means.busy_fraction = mean_over_time(gpu.busy, timeline.gaps);
    if (!gpu.memory_used_bytes.empty()) means.memory_used_bytes = gpu.memory_used_bytes.values.back();
    // The buffer's samples are instant ones; the plain reading may be a mean over the last second.
    means.power_mw = mean_over_time(gpu.power_samples_mw.empty() ? gpu.power_mw : gpu.power_samples_mw, timeline.gaps);
    signals.gpus.push_back(means);
  }
  return signals;
}

}  // namespace lockstep
