// One line on the terminal that says how far a command is, and goes when it ends. Nothing where
// standard error is no terminal.
#pragma once

#include <string_view>

#include "runs/run_options.hpp"

namespace lockstep {

class ProgressLine {
 public:
  explicit ProgressLine(const RunOptions& options);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void tell(std::string_view words) const;

 private:
  bool shown_;
};

}  // namespace lockstep
