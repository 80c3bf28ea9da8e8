// One job measured twice: as it was, and with the fix.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/report.hpp"

namespace lockstep {

struct MeasuredRun {
  std::string title;                 // "before: naive split"
  std::vector<std::string> command;  // as typed
  double tokens_per_s = 0;           // by the training's own count
  Report report;
};

struct BeforeAfter {
  MeasuredRun before;
  MeasuredRun after;
  std::optional<std::string> disturbed_by;  // why the numbers may not be trusted, in words

  double speedup() const {
    return before.tokens_per_s > 0 ? after.tokens_per_s / before.tokens_per_s : 0;
  }
};

}  // namespace lockstep
