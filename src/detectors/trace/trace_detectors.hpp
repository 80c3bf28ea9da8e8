// Findings from the GPUs' own records.
//
// A trace is exact: when each kernel ran, when it was launched, what the host did meanwhile. So
// nothing here guesses from powers and periods. What a finding costs is what the replayed run would
// take without it, which is less than the time it was seen for wherever it hides behind something
// else. Blind: a trace covers a few steps (a checkpoint every thousand is not in it), and the
// profiler itself slows the host, with stacks and shapes most of all.
#pragma once

#include <vector>

#include "detectors/finding_tools.hpp"
#include "lockstep/detector.hpp"

namespace lockstep {

// The job of a trace, its numbers, and how sure one can be of anything in it.
struct SeenTrace {
  const JobSignals& job;
  const TraceSignals& trace;
  Pattern pattern;
  double sure;  // at most: few steps, or a replay that went astray, prove less
};

JobVerdict judge_trace(const JobSignals& job, const TraceSignals& trace);

// What every detector of traces found, unsorted.
std::vector<Finding> inspect_trace(const JobSignals& job, const TraceSignals& trace,
                                   Pattern pattern);

// D201 D202 D203, S301 to S307
void find_host_delays(const SeenTrace& seen, std::vector<Finding>& findings);
void find_collective_losses(const SeenTrace& seen, std::vector<Finding>& findings);  // C401 to C404
// P101 P102, B503
void find_device_losses(const SeenTrace& seen, std::vector<Finding>& findings);

inline Finding about_trace(FindingCode code, const SeenTrace& seen, double confidence, double lost,
                           std::vector<Evidence> evidence) {
  Finding finding = about_job(code, seen.job, lost > 0.3 ? Severity::critical : Severity::warning,
                              std::min(confidence, seen.sure), lost, std::move(evidence));
  finding.rung = 2;
  return finding;
}

}  // namespace lockstep
