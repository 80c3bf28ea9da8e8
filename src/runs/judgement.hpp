// From a timeline to a report: signals, diagnosis, advice.
#pragma once

#include "lockstep/detector.hpp"
#include "lockstep/report.hpp"
#include "lockstep/signals.hpp"
#include "lockstep/timeline.hpp"

namespace lockstep {

// A run that was watched or read, and what it came to.
struct Judged {
  Signals signals;
  Diagnosis diagnosis;
};

Judged judge(const Timeline& timeline);
Report report_of(const Timeline& timeline, const Judged& run);

}  // namespace lockstep
