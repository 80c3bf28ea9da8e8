// C401 to C404 in traces: ranks that wait for each other, and data that moves while nobody
// computes.
//
// Why it shows: a collective's kernel begins on each rank when that rank arrives, and ends on all
// of them when the last one's data has been through. So the last to arrive has the shortest kernel:
// long ones mark those who waited, not the culprit. What even the last one spends in it with
// nothing to compute is the transfer itself. Blind: with one rank's trace alone waiting and
// transfer cannot be told apart. Kernels are matched by their order in their group.
#include <algorithm>

#include "base/median.hpp"
#include "detectors/trace/trace_detectors.hpp"

namespace lockstep {
namespace {

// of all lateness; two ranks that are late in turn have half each
constexpr double kLateShare = 0.6;
constexpr double kCollectiveWorthwhile = 0.02;
constexpr double kExposedShare = 0.1;  // as the PyTorch profiler's own rule had it

// What the late rank does longer than the others: the reason, as far as a trace tells.
std::string why_late(const TraceSignals& trace, const TraceRankSignals& late) {
  const char* reason = nullptr;
  double most = 0.01;
  const auto compare = [&](double own, double of_others, const char* words) {
    if (own - of_others > most) {
      most = own - of_others;
      reason = words;
    }
  };
  const auto mean_of_others = [&](auto value) {
    double sum = 0;
    for (const TraceRankSignals& rank : trace.ranks)
      if (rank.rank != late.rank) sum += value(rank) / static_cast<double>(trace.ranks.size() - 1);
    return sum;
  };
  compare(late.computes, mean_of_others([](const TraceRankSignals& rank) { return rank.computes; }),
          "its GPU computes longer: more work, or a slower clock");
  for (const auto& [part, words] :
       {std::pair{StepPart::data_wait, "it waits longer for data"},
        {StepPart::sync, "it waits longer for its GPU"},
        {StepPart::logging, "it logs while the others go on"},
        {StepPart::checkpoint, "it saves while the others go on"},
        {StepPart::evaluation, "it evaluates while the others go on"},
        {StepPart::forward, "its host is slower to launch"},
        {StepPart::backward, "its host is slower to launch"},
        {StepPart::other, "its Python code between the operators takes longer"}})
    compare(late.idle[index_of(part)], mean_of_others([part = part](const TraceRankSignals& rank) {
              return rank.idle[index_of(part)];
            }),
            words);
  return reason == nullptr ? std::string() : std::string(reason);
}

void find_straggler(const SeenTrace& seen, std::vector<Finding>& findings) {
  const TraceSignals& trace = seen.trace;
  if (trace.ranks.size() < 2 || trace.collectives < 3 || trace.step_ms <= 0) return;
  const TraceRankSignals& late = *std::ranges::max_element(
      trace.ranks, [](const TraceRankSignals& a, const TraceRankSignals& b) {
        return a.late_share < b.late_share;
      });
  if (late.late_share < kLateShare) return;
  std::vector<double> others;
  for (const TraceRankSignals& rank : trace.ranks)
    if (rank.rank != late.rank) others.push_back(rank.exposed_communication);
  // The others spend in collectives what they wait, and it spends only what the transfer takes.
  const double waited = middle_value(others) - late.exposed_communication;
  const double lost = std::min(waited, late.late_ms_a_step / trace.step_ms);
  if (lost < kCollectiveWorthwhile) return;
  // Late once is not late step after step.
  constexpr int kStepsAtLeast = 2;
  const int absent = trace.world_size.value_or(0) - static_cast<int>(trace.ranks.size());
  Finding finding = about_trace(
      FindingCode::straggler_rank, seen,
      trace.steps < kStepsAtLeast ? 0.45
      : absent > 0                ? 0.6
                                  : 0.9,
      lost,
      {{"late_share", late.late_share, kLateShare, "fraction"},
       {"late_a_step_ms", late.late_ms_a_step, std::nullopt, "ms"},
       {"others_in_collectives", middle_value(others), std::nullopt, "fraction"},
       {"itself_in_collectives", late.exposed_communication, std::nullopt, "fraction"}});
  finding.ranks = {late.rank};
  if (absent > 0)
    finding.evidence.push_back({"of " + std::to_string(*trace.world_size) + " ranks " +
                                    std::to_string(absent) +
                                    " are not in the traces: one of those may be later still",
                                1, std::nullopt, "message"});
  finding.gpus = late.gpus;
  if (std::string why = why_late(trace, late); !why.empty())
    finding.evidence.push_back({std::move(why), 1, std::nullopt, "message"});
  findings.push_back(std::move(finding));
}

double least_exposed(const TraceSignals& trace) {
  double least = 1;
  for (const TraceRankSignals& rank : trace.ranks)
    least = std::min(least, rank.exposed_communication);
  return trace.ranks.empty() ? 0 : least;
}

void find_exposed(const SeenTrace& seen, std::vector<Finding>& findings) {
  const TraceSignals& trace = seen.trace;
  const double exposed = least_exposed(trace);
  if (exposed < kExposedShare) return;
  // Where the host is late anyway, a faster network gives nothing back.
  const double lost =
      trace.waits_recorded ? std::min(exposed, trace.removable_collectives) : exposed;
  const bool alone = trace.ranks.size() < 2;
  std::vector<Evidence> evidence = {{"exposed_communication", exposed, kExposedShare, "fraction"}};
  std::optional<double> overlap;
  for (const RankBreakdown& rank : trace.breakdown.ranks)
    if (rank.overlap) overlap = std::max(overlap.value_or(0), *rank.overlap);
  if (overlap) evidence.push_back({"overlap_with_compute", *overlap, std::nullopt, "fraction"});
  if (!trace.waits_recorded)
    evidence.push_back({"the host's waits are not in the trace: judged by what is exposed alone", 1,
                        std::nullopt, "message"});
  if (alone)
    evidence.push_back(
        {"one rank's trace: part of it may be waiting for a late rank; give the traces of all", 1,
         std::nullopt, "message"});
  findings.push_back(about_trace(FindingCode::exposed_collectives, seen,
                                 alone || !trace.waits_recorded ? 0.6 : 0.9, lost,
                                 std::move(evidence)));
}

void find_accumulation(const SeenTrace& seen, std::vector<Finding>& findings) {
  const TraceSignals& trace = seen.trace;
  constexpr double kSeveral = 1.9;
  if (trace.passes_a_step < kSeveral || trace.passes_with_collectives < trace.passes_a_step - 0.1)
    return;
  const double lost = least_exposed(trace) * (1 - 1 / trace.passes_a_step);
  findings.push_back(
      about_trace(FindingCode::sync_every_micro_step, seen, 0.9, lost,
                  {{"passes_a_step", trace.passes_a_step, kSeveral, "passes"},
                   {"passes_with_collectives", trace.passes_with_collectives, 1.0, "passes"}}));
}

void find_unused_search(const SeenTrace& seen, std::vector<Finding>& findings) {
  const TraceSignals& trace = seen.trace;
  if (trace.find_unused_ms_a_step <= 0 || trace.step_ms <= 0) return;
  double behind = 0;  // how much of the host's time the GPU waits for
  for (const TraceRankSignals& rank : trace.ranks) behind = std::max(behind, 1 - rank.busy);
  const double share = trace.find_unused_ms_a_step / trace.step_ms;
  findings.push_back(
      about_trace(FindingCode::find_unused_parameters, seen, 0.9, std::min(share, behind),
                  {{"search_a_step_ms", trace.find_unused_ms_a_step, std::nullopt, "ms"},
                   {"search_share", share, kCollectiveWorthwhile, "fraction"}}));
}

}  // namespace

void find_collective_losses(const SeenTrace& seen, std::vector<Finding>& findings) {
  find_straggler(seen, findings);
  find_exposed(seen, findings);
  find_accumulation(seen, findings);
  find_unused_search(seen, findings);
}

}  // namespace lockstep
