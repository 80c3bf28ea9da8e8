// One line of a training log that says how long a step took.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

namespace lockstep {

struct StepLine {
  std::size_t line = 0;  // from 0
  double step_ms = 0;
  std::optional<double> data_ms;  // of it, waiting for the batch
};

// What a log tells of many steps at once.
struct StepsTogether {
  double count = 0;
  StepLine mean;
};

// One for each step, or for each so many, where they are more than anybody needs: that a stretch of
// four thousand quick steps weighs as much as it should beside one of two that take seconds.
inline std::vector<StepLine> one_by_one(const std::vector<StepsTogether>& stretches) {
  constexpr double kMost = 20'000;
  double all = 0;
  for (const StepsTogether& stretch : stretches) all += stretch.count;
  std::vector<StepLine> steps;
  double owed = 0;
  for (const StepsTogether& stretch : stretches) {
    owed += stretch.count * std::min(1.0, kMost / all);
    const double now = std::max(0.0, std::round(owed));
    steps.insert(steps.end(), static_cast<std::size_t>(now), stretch.mean);
    owed -= now;
  }
  return steps;
}

}  // namespace lockstep
