// From a timeline to a report: signals, diagnosis, advice.
#pragma once

#include "lockstep/detector.hpp"
#include "lockstep/report.hpp"
#include "lockstep/result.hpp"
#include "lockstep/signals.hpp"
#include "lockstep/timeline.hpp"
#include "sources/open_input.hpp"

namespace lockstep {

// A run that was watched or read, and what it came to.
struct Judged {
  Signals signals;
  Diagnosis diagnosis;
};

Judged judge(const Timeline& timeline);
// A run to compare with (--against): a file. `next` says how to make one.
Result<Judged> judge_file(const std::string& path, const SourceOptions& options,
                          const std::string& next);
Report report_of(const Timeline& timeline, const Judged& run);

}  // namespace lockstep
