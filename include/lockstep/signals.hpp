// Numbers derived from a timeline: arithmetic only, no thresholds, no verdicts.
#pragma once

#include <optional>
#include <vector>

namespace lockstep {

struct GpuSignals {
  int index = 0;
  std::optional<double> busy_fraction;       // mean over the run, each reading weighted by the time it stands for
  std::optional<double> memory_used_bytes;   // newest
  std::optional<double> power_mw;            // mean, from the sample buffer where it was read
};

struct Signals {
  double duration_s = 0;
  std::vector<GpuSignals> gpus;
};

}  // namespace lockstep
