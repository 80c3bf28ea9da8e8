// A detector is a row of a table: the code it may raise, and the function that looks.
//
// A detector without its data stays silent (no finding); the report says what could not be
// measured.
#pragma once

#include <optional>
#include <vector>

#include "lockstep/finding.hpp"
#include "lockstep/ledger.hpp"
#include "lockstep/report.hpp"
#include "lockstep/signals.hpp"

namespace lockstep {

// What a job's GPUs do together, and the numbers that say so.
struct JobVerdict {
  Verdict verdict;
  std::vector<Evidence> evidence;
};

struct Seen {
  const Signals& signals;
  const std::vector<JobVerdict>& verdicts;  // one for each of signals.jobs, in the same order
};

// What was concluded from the signals: a verdict a job, one for the machine, and the findings,
// costliest first.
struct Diagnosis {
  std::vector<JobVerdict> verdicts;  // one for each of signals.jobs, in the same order
  std::size_t first_job = 0;         // the job that the machine's verdict speaks of
  Verdict verdict;
  std::vector<Ledger> ledgers;  // one for each of signals.jobs
  std::optional<Throughput> throughput;
  std::vector<Finding> findings;
  std::vector<Finding> suspicions;
};

struct Detector {
  FindingCode code;
  std::vector<Finding> (*inspect)(const Seen& seen);
};

}  // namespace lockstep
