#include "runs/progress_line.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace lockstep {

ProgressLine::ProgressLine(const RunOptions& options)
    : shown_(!options.quiet && ::isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  if (shown_) fmt::print(stderr, "\r\x1b[K");
}

void ProgressLine::tell(std::string_view words) const {
  if (!shown_) return;
  fmt::print(stderr, "\r\x1b[K{}", words);
  std::fflush(stderr);
}

}  // namespace lockstep
