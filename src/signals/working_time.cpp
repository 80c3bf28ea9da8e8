#include "signals/working_time.hpp"

#include <algorithm>
#include <optional>

#include "signals/lanes.hpp"
#include "signals/statistics.hpp"

namespace lockstep {
namespace {

constexpr double kSignOfWork = 0.05;  // busy: below, a desktop or a heartbeat
// of the working time: a GPU that joins late must not hide what the others did
constexpr double kKeptAtLeast = 0.4;

// Whatever starts rises: jobs of strangers that start together rise together, which says nothing.
// Work begins where every GPU has once come near to what it usually reads.
double end_of_ramp(const Timeline& timeline, const JobSignals& job) {
  constexpr double kNear = 0.8;
  constexpr double kLongest = 0.25;  // of the working time
  double from = job.from_ms;
  for (const GpuTrack* const track : tracks_of(timeline, job.gpus)) {
    std::vector<double> working;
    for (std::size_t i = 0; i < track->busy.size(); ++i)
      if (track->busy.t_ms[i] >= job.from_ms && track->busy.values[i] > kSignOfWork)
        working.push_back(track->busy.values[i]);
    const double usual = median_of(working).value_or(0);
    for (std::size_t i = 0; i < track->busy.size(); ++i)
      if (track->busy.t_ms[i] >= job.from_ms && track->busy.values[i] >= kNear * usual) {
        from = std::max(from, track->busy.t_ms[i]);
        break;
      }
  }
  return std::min(from, job.from_ms + kLongest * (job.to_ms - job.from_ms));
}

// A model is made, and then libraries are loaded, workers started and kernels chosen: kernels of
// the first second are no sign that training has begun (seen on an H200: 3 s of rest behind them).
// Work begins with the first two windows in a row that are half as busy as the later half of the
// run is.
double end_of_start_up(const Timeline& timeline, const JobSignals& job) {
  constexpr double kWindowMs = 1000;
  constexpr double kOfUsual = 0.5;
  constexpr std::size_t kFewestWindows = 6;
  constexpr double kLongest = 0.6;  // of the time: more would leave too little to judge
  const auto windows = static_cast<std::size_t>((job.to_ms - job.from_ms) / kWindowMs);
  if (windows < kFewestWindows) return job.from_ms;
  std::vector<double> sums(windows, 0);
  std::vector<double> counts(windows, 0);
  for (const GpuTrack* const track : tracks_of(timeline, job.gpus))
    for (std::size_t i = 0; i < track->busy.size(); ++i) {
      const double at = (track->busy.t_ms[i] - job.from_ms) / kWindowMs;
      if (at < 0 || at >= static_cast<double>(windows)) continue;
      sums[static_cast<std::size_t>(at)] += track->busy.values[i];
      counts[static_cast<std::size_t>(at)] += 1;
    }
  std::vector<double> means;
  for (std::size_t i = 0; i < windows; ++i)
    means.push_back(counts[i] > 0 ? sums[i] / counts[i] : kUnknown);
  const std::vector<double> later(means.begin() + static_cast<std::ptrdiff_t>(windows / 2),
                                  means.end());
  const double usual = median_of(later).value_or(0);
  const auto works = [&](std::size_t i) { return known(means[i]) && means[i] >= kOfUsual * usual; };
  // Readings further apart than a window, or a job that rests now and then from its first moment
  // on.
  if (usual <= 0 || works(0) || !known(means[0])) return job.from_ms;
  for (std::size_t i = 1; i + 1 < windows; ++i)
    if (works(i) && works(i + 1))
      return job.from_ms +
             std::min(static_cast<double>(i) * kWindowMs, kLongest * (job.to_ms - job.from_ms));
  return job.from_ms;
}

// A run that has ended has no processes any more. One whose processes are still there long after
// its last sign of work has stopped, which is part of what was watched.
bool lives_on(const Timeline& timeline, const JobSignals& job, double last_work_ms) {
  constexpr double kNoPauseMs = 5000;
  if (timeline.process_lists.empty()) return false;
  const ProcessList& list = timeline.process_lists.back();
  return list.t_ms - last_work_ms > kNoPauseMs &&
         std::ranges::any_of(list.processes, [&](const ProcessSample& process) {
           return std::ranges::find(job.pids, process.pid) != job.pids.end();
         });
}

}  // namespace

std::vector<const GpuTrack*> tracks_of(const Timeline& timeline, const std::vector<int>& gpus) {
  std::vector<const GpuTrack*> tracks;
  for (const int gpu : gpus)
    if (const GpuTrack* const track = find_track(timeline, gpu)) tracks.push_back(track);
  return tracks;
}

// From when all its GPUs have begun to the last sign of work of a run that then ended: loading,
// compilation and the end of a run are no part of it.
void find_working_time(const Timeline& timeline, JobSignals& job) {
  job.from_ms = timeline.from_ms;
  job.to_ms = timeline.to_ms;
  std::optional<double> first;
  double all_by = timeline.from_ms;  // every GPU that works at all has begun to
  double last = timeline.from_ms;
  std::size_t readings = 0;
  std::size_t working = 0;
  for (const GpuTrack* const track : tracks_of(timeline, job.gpus)) {
    std::optional<double> own_first;
    for (std::size_t i = 0; i < track->busy.size(); ++i) {
      ++readings;
      if (track->busy.values[i] <= kSignOfWork) continue;
      ++working;
      if (!own_first) own_first = track->busy.t_ms[i];
      last = std::max(last, track->busy.t_ms[i]);
    }
    if (!own_first) continue;
    first = std::min(first.value_or(*own_first), *own_first);
    all_by = std::max(all_by, *own_first);
  }
  // One reading in many is a program that looked in, or a screen that was drawn.
  constexpr std::size_t kManyReadings = 20;
  job.active = first.has_value() && (working > 1 || readings < kManyReadings);
  // A server rests between requests, at the begin and the end of a watch as at any other time.
  if (!job.active || job.serves) return;
  job.to_ms = last;
  if (lives_on(timeline, job, last)) {
    job.stopped_ms = last;
    job.to_ms = timeline.to_ms;
  }
  job.from_ms = last - all_by > kKeptAtLeast * (last - *first) ? all_by : *first;
  job.from_ms = end_of_ramp(timeline, job);
  job.from_ms = end_of_start_up(timeline, job);
}

}  // namespace lockstep
