// One line of a training log that says how long a step took.
#pragma once

#include <cstddef>
#include <optional>

namespace lockstep {

struct StepLine {
  std::size_t line = 0;  // from 0
  double step_ms = 0;
  std::optional<double> data_ms;  // of it, waiting for the batch
};

}  // namespace lockstep
