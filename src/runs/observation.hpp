// Watching a source into a timeline: what monitor and diagnose have in common.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "lockstep/report.hpp"
#include "lockstep/source.hpp"
#include "lockstep/timeline.hpp"

namespace lockstep {

struct ObservationOptions {
  std::optional<std::chrono::nanoseconds> duration;  // nothing: to the end of the input
  std::function<bool()> stop;                        // asked between records
  // Shown the timeline so far at every `review_every` of the records' own time; true ends the
  // watch.
  std::function<bool(const Timeline& so_far)> enough;
  std::chrono::nanoseconds review_every = std::chrono::milliseconds(500);
  std::optional<int> pid;       // only this process, what it started, and the GPUs that those hold
  bool whole_job = false;       // with `pid`: all ranks of the job that it belongs to
  bool without_gpus = false;    // steps that a probe told are enough: no GPU need be read or held
  bool keep_free_gpus = false;  // with `pid`: GPUs that nobody holds stay in the picture
};

// Whether a process is `ancestor` or stands below it, as far as this source can tell: pids of a
// recording mean nothing on this machine, there only the parents that were recorded count.
bool is_or_descends_from(const ProcessSample& process, int ancestor, const Source& source);

// An error where not one reading of a GPU came, or where the process held none.
Result<Timeline> observe(Source& source, const ObservationOptions& options);

}  // namespace lockstep
