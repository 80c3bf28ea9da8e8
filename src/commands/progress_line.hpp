// One line on the terminal that says how far a command is, and goes when it ends. Nothing where standard error is no terminal.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "commands/shared_options.hpp"

namespace lockstep {

class ProgressLine {
 public:
  explicit ProgressLine(const SharedOptions& options) : shown_(!options.quiet && ::isatty(STDERR_FILENO) == 1) {}
  ~ProgressLine() {
    if (shown_) fmt::print(stderr, "\r\x1b[K");
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void tell(std::string_view words) const {
    if (!shown_) return;
    fmt::print(stderr, "\r\x1b[K{}", words);
    std::fflush(stderr);
  }

 private:
  bool shown_;
};

}  // namespace lockstep
