#include "detectors/diagnosis.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "detectors/all_detectors.hpp"
#include "detectors/calibration.hpp"
#include "detectors/finding_tools.hpp"
#include "detectors/ledger.hpp"
#include "detectors/split/pattern.hpp"
#include "detectors/told/reported_findings.hpp"
#include "detectors/trace/trace_detectors.hpp"

namespace lockstep {
namespace {

// By a program's message, whose sureness strangers' logs have settled.
bool is_a_message(const Finding& finding) {
  return !finding.evidence.empty() && finding.evidence.front().unit == "message";
}

// Gives each its cost and its place.
void settle_findings(const Signals& signals, std::vector<Finding> found, Diagnosis& diagnosis) {
  const Seen seen{signals, diagnosis.verdicts};
  diagnosis.ledgers = settle(seen, found);
  costliest_first(found);
  // Counted on what is seen from outside; traces and probes say what they measured.
  if (!signals.trace)
    for (Finding& finding : found)
      if (finding.rung == 0 && !is_a_message(finding))
        finding.confidence = calibrated(finding.confidence);
  // Nobody is woken for what is hardly more than likely.
  constexpr double kSureOfCritical = 0.7;
  for (Finding& finding : found)
    if (finding.severity == Severity::critical && finding.confidence < kSureOfCritical &&
        !is_a_message(finding))
      finding.severity = Severity::warning;
  for (Finding& finding : found)
    (is_stood_behind(finding) ? diagnosis.findings : diagnosis.suspicions)
        .push_back(std::move(finding));
  diagnosis.throughput = throughput_of(seen, diagnosis.ledgers, diagnosis.findings);
}

// The GPUs' own records need no inference from outside.
Diagnosis diagnose_trace(const Signals& signals) {
  const JobSignals& job = signals.jobs.front();
  Diagnosis diagnosis;
  diagnosis.verdicts = {judge_trace(job, *signals.trace)};
  diagnosis.verdict = diagnosis.verdicts.front().verdict;
  settle_findings(signals, inspect_trace(job, *signals.trace, diagnosis.verdict.pattern),
                  diagnosis);
  return diagnosis;
}

}  // namespace

Diagnosis diagnose(const Signals& signals) {
  if (signals.trace && !signals.jobs.empty()) return diagnose_trace(signals);
  Diagnosis diagnosis;
  diagnosis.verdicts = judge_patterns(signals);
  const MachineVerdict machine = judge_machine(signals, diagnosis.verdicts);
  diagnosis.verdict = machine.verdict;
  diagnosis.first_job = machine.first_job;
  std::vector<Finding> found = inspect_all({signals, diagnosis.verdicts});
  std::vector<Finding> reported = reported_findings(signals, found);
  found.insert(found.end(), std::make_move_iterator(reported.begin()),
               std::make_move_iterator(reported.end()));
  settle_findings(signals, std::move(found), diagnosis);
  for (JobVerdict& judged : diagnosis.verdicts)
    judged.verdict.confidence = calibrated(judged.verdict.confidence);
  diagnosis.verdict.confidence = calibrated(diagnosis.verdict.confidence);
  return diagnosis;
}

namespace {

constexpr double kWellBusy = 0.8;

// NCCL's ranks stand apart and none has begun a collective since the look before: whether they are
// stuck or one of them only saves has not shown yet.
bool may_be_stuck(const Diagnosis& diagnosis, const JobSignals& job) {
  if (!job.communicators) return false;
  const bool told = std::ranges::any_of(diagnosis.findings, [](const Finding& finding) {
    return finding.code == FindingCode::stuck_collective;
  });
  return !told && std::ranges::any_of(job.communicators->stuck, [](const StuckCommunicator& one) {
    return !one.behind.empty();
  });
}

}  // namespace

bool is_worth_waiting_for(const Diagnosis& diagnosis, const Signals& signals) {
  if (diagnosis.first_job >= signals.jobs.size()) return false;
  const JobSignals& job = signals.jobs[diagnosis.first_job];
  if (may_be_stuck(diagnosis, job)) return true;
  const bool told = diagnosis.verdict.pattern == Pattern::taking_turns &&
                    diagnosis.verdict.confidence >= calibrated(0.8);
  return !told && job.fine && seem_to_alternate(*job.fine);
}

bool is_sure(const Diagnosis& diagnosis, const Signals& signals) {
  constexpr double kWrongAtMost = 0.001;
  constexpr double kVote = 2.2;  // ln 9, as in pattern.cpp: one block in ten votes wrong
  // a healthy job is watched a little longer: its faults are rarer than turns
  constexpr double kHealthyAfterS = 3.5;
  constexpr double kFaultAfterS = 1.5;
  constexpr double kSecondStallS = 20;  // one stall is no pattern: wait for the next, so long
  const double needed = std::log((1 - kWrongAtMost) / kWrongAtMost);
  if (diagnosis.first_job >= signals.jobs.size()) return false;  // nothing runs yet: keep looking
  const JobSignals& job = signals.jobs[diagnosis.first_job];
  if (may_be_stuck(diagnosis, job)) return false;
  const double watched_s = (job.to_ms - job.from_ms) / 1e3;
  switch (diagnosis.verdict.pattern) {
    case Pattern::taking_turns:
    case Pattern::one_leads:
    case Pattern::in_step:
    case Pattern::pipeline: break;
    case Pattern::single_gpu:
    case Pattern::independent:
      // Hardly busy: it may not have begun, and why it rests takes a longer look.
      return watched_s >= kHealthyAfterS && busy_on_average(job) >= kWellBusy;
    case Pattern::idle:
    case Pattern::unclear: return false;
  }
  if (!job.fine || diagnosis.verdict.confidence < calibrated(0.7)) return false;
  const double turns =
      kVote * std::max<double>(job.fine->blocks_exclusive,
                               job.fine->exclusive_busy > 0.6 ? job.fine->hand_overs / 2.0 : 0);
  const double together = kVote * job.fine->blocks_together;
  if (diagnosis.verdict.pattern == Pattern::taking_turns)
    return watched_s >= kFaultAfterS && turns - together >= needed;
  if (job.stalls.all.size() == 1 && watched_s < kSecondStallS) return false;
  if (diagnosis.verdict.pattern == Pattern::in_step && busy_on_average(job) < kWellBusy &&
      diagnosis.findings.empty())
    return false;  // it rests, and nothing says why yet
  return watched_s >= kHealthyAfterS && together - turns >= needed;
}

}  // namespace lockstep
