// The loop of every command that watches a source for a while.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "lockstep/result.hpp"
#include "lockstep/source.hpp"

namespace lockstep {

struct WatchOptions {
  // nothing: to the end of the input, or until stopped
  std::optional<std::chrono::nanoseconds> duration;
  std::function<bool()> stop;  // asked between records; true ends the watch
};

struct WatchResult {
  bool interrupted = false;
  std::optional<Source::Silence> silence;  // the driver had stopped answering when the watch ended
};

// Hands every record to `take` in order. Ends at the end of the input, after the duration (by the
// records' own clock for files, by the wall clock for live sources), on Ctrl-C, or when `stop` says
// so.
Result<WatchResult> watch(Source& source, const WatchOptions& options,
                          const std::function<Status(const Record&)>& take);

}  // namespace lockstep
