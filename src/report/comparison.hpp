// How a run compares with another, or with a known time on one GPU: the answer to "why 1.2x and
// not 1.9x".
#pragma once

#include <chrono>
#include <string>

#include "lockstep/detector.hpp"
#include "lockstep/report.hpp"
#include "lockstep/signals.hpp"

namespace lockstep {

// What is compared: the job that the verdict speaks of.
struct RunView {
  const Signals& signals;
  const Diagnosis& diagnosis;
};

// Nothing where one of the runs has no job that works.
std::optional<Comparison> compare_runs(const RunView& run, const RunView& other,
                                       std::string other_name);
// `alone` is how long the same work takes on one GPU; the run is taken to be whole.
// Only where the run was seen from its begin to its end: `whole`.
std::optional<Comparison> compare_with_time(const RunView& run, std::chrono::nanoseconds alone,
                                            bool whole);

// Whether the work began and ended while it was watched: nothing on the GPUs before and after.
bool shows_whole_work(const Timeline& timeline, const Signals& signals, std::size_t job);

}  // namespace lockstep
