// D201, D202, D203, S301 to S307 in a trace: the GPU had nothing to do because the host was
// elsewhere.
//
// Why it shows: an empty GPU whose next kernel was not launched yet waits for the host, and the
// trace says what the host did in between: it stood in the loader's __next__, waited for the GPU
// itself, wrote a log, or was simply slow with its operators. A wait of which the GPU saw nothing,
// since it still had work, is no loss: the replay without it takes as long. Confused with: each
// other, where stacks are missing: time between two operators without any row is the loop's own
// Python.
#include <cmath>

#include "detectors/trace/trace_detectors.hpp"

namespace lockstep {
namespace {

constexpr double kDelayWaitShare =
    0.05;  // as the PyTorch profiler's own rule had it for the loader
constexpr double kDelayWorthwhile = 0.02;
constexpr double kInEveryStep = 0.9;
// healthy eager training of large models: 1 to 3 % (2 % in a ResNet-50 at batch 64 on a V100)
constexpr double kLaunchShare = 0.1;
constexpr double kMegabyte = 1e6;

double most_idle(const TraceSignals& trace, StepPart part) {
  double most = 0;
  for (const TraceRankSignals& rank : trace.ranks) most = std::max(most, rank.idle[index_of(part)]);
  return most;
}

double idle_while_launching(const TraceSignals& trace) {
  double idle = 0;
  for (const TraceRankSignals& rank : trace.ranks) {
    double own = 0;
    for (const StepPart part : {StepPart::forward, StepPart::backward, StepPart::optimizer})
      own += rank.idle[index_of(part)];
    idle = std::max(idle, own);
  }
  return idle;
}

double removable(const TraceSignals& trace, StepPart part) {
  return trace.removable[index_of(part)];
}

// Ranks that have most of it, where not all have it alike.
std::vector<int> ranks_with(const TraceSignals& trace, StepPart part) {
  std::vector<int> ranks;
  const double most = most_idle(trace, part);
  for (const TraceRankSignals& rank : trace.ranks)
    if (rank.idle[index_of(part)] > 0.5 * most) ranks.push_back(rank.rank);
  return ranks;
}

void find_input(const SeenTrace& seen, std::vector<Finding>& findings) {
  const TraceSignals& trace = seen.trace;
  const double lost = removable(trace, StepPart::data_wait);
  if (lost < kDelayWorthwhile) return;
  Finding starved = about_trace(
      FindingCode::input_starved, seen, lost >= kDelayWaitShare ? 0.95 : 0.45, lost,
      {{"idle_for_data", most_idle(trace, StepPart::data_wait), kDelayWaitShare, "fraction"},
       {"data_wait_a_step_ms", trace.data_wait_ms_a_step, std::nullopt, "ms"},
       {"step_without_it_ms", trace.step_ms * (1 - lost), std::nullopt, "ms"}});
  if (!trace.loader_file.empty()) starved.where.push_back({trace.loader_file, trace.loader_line});
  if (trace.ranks.size() > 1) starved.ranks = ranks_with(trace, StepPart::data_wait);
  findings.push_back(starved);
  if (trace.loader_in_process != true || lost < kDelayWaitShare) return;
  starved.code = FindingCode::loader_without_workers;
  starved.evidence = {
      {"_SingleProcessDataLoaderIter: the training thread makes each batch itself", 1, std::nullopt,
       "message"},
      {"idle_for_data", most_idle(trace, StepPart::data_wait), kDelayWaitShare, "fraction"}};
  findings.push_back(std::move(starved));
}

void find_copies(const SeenTrace& seen, std::vector<Finding>& findings) {
  const TraceSignals& trace = seen.trace;
  if (trace.pageable_bytes_a_step < kMegabyte || trace.step_ms <= 0) return;
  // Pinned and not waited for, the copy runs beside the step before.
  double exposed = 0;
  for (const TraceRankSignals& rank : trace.ranks) exposed = std::max(exposed, rank.exposed_copies);
  const double lost = std::min(exposed, trace.pageable_ms_a_step / trace.step_ms) +
                      removable(trace, StepPart::copy);
  if (lost < 0.005) return;
  Finding finding =
      about_trace(FindingCode::pageable_copies, seen, 0.9, lost,
                  {{"pageable_bytes_a_step", trace.pageable_bytes_a_step, kMegabyte, "bytes"},
                   {"copy_a_step_ms", trace.pageable_ms_a_step, std::nullopt, "ms"}});
  for (const TraceWait& wait : trace.waits)
    if (wait.part == StepPart::copy && !wait.file.empty() && finding.where.empty())
      finding.where.push_back({wait.file, wait.line});
  findings.push_back(std::move(finding));
}

void find_waits(const SeenTrace& seen, std::vector<Finding>& findings) {
  const TraceSignals& trace = seen.trace;
  // What the wait's own idle time and slow launches explain: a loader that follows it has a finding
  // of its own.
  const double lost = std::min(removable(trace, StepPart::sync),
                               most_idle(trace, StepPart::sync) + idle_while_launching(trace));
  double calls = 0;
  double waited = 0;
  const TraceWait* first = nullptr;
  Finding places;
  for (const TraceWait& wait : trace.waits) {
    if (wait.part != StepPart::sync || wait.present < kInEveryStep) continue;
    if (first == nullptr) first = &wait;
    calls += wait.calls_a_step;
    waited += wait.wait_ms_a_step;
    if (!wait.file.empty() && places.where.size() < 4)
      places.where.push_back({wait.file, wait.line});
  }
  if (first == nullptr || lost < 0.005) return;
  Finding finding = about_trace(
      FindingCode::host_sync_every_step, seen, trace.steps < 2 ? 0.45 : 0.9, lost,
      {{"waits in " + first->what, 1, std::nullopt, "message"},
       {"sync_calls_a_step", calls, 1.0, "calls"},
       {"sync_wait_a_step_ms", waited, std::nullopt, "ms"},
       {"idle_after_waits", most_idle(trace, StepPart::sync), kDelayWorthwhile, "fraction"},
       {"step_without_it_ms", trace.step_ms * (1 - lost), std::nullopt, "ms"}});
  finding.where = std::move(places.where);
  findings.push_back(std::move(finding));
}

void find_rests(const SeenTrace& seen, std::vector<Finding>& findings) {
  struct Rule {
    FindingCode code;
    StepPart part;
    const char* signal;
  };
  constexpr std::array kRules = {
      Rule{FindingCode::logging_too_often, StepPart::logging, "idle_for_logging"},
      Rule{FindingCode::checkpoint_stall, StepPart::checkpoint, "idle_for_checkpoints"},
      Rule{FindingCode::evaluation_stall, StepPart::evaluation, "idle_for_evaluation"},
      Rule{FindingCode::stopped_by_collector, StepPart::gc, "idle_for_collector"}};
  for (const Rule& rule : kRules) {
    const double lost = removable(seen.trace, rule.part);
    if (lost < kDelayWorthwhile) continue;
    Finding finding =
        about_trace(rule.code, seen, 0.85, lost,
                    {{rule.signal, most_idle(seen.trace, rule.part), kDelayWorthwhile, "fraction"},
                     {"step_without_it_ms", seen.trace.step_ms * (1 - lost), std::nullopt, "ms"}});
    if (seen.trace.ranks.size() > 1) finding.ranks = ranks_with(seen.trace, rule.part);
    findings.push_back(std::move(finding));
  }
}

// Stretches without any operator, in the loop's own code. What a profiler does between two steps
// looks the same, and takes less than a tenth of one.
void find_own_code(const SeenTrace& seen, std::vector<Finding>& findings) {
  constexpr double kOwnCodeShare = 0.1;
  const TraceSignals& trace = seen.trace;
  const double idle = most_idle(trace, StepPart::other);
  // What lies before the first step, as starting workers does, comes once.
  const double in_steps = seen.job.steps ? seen.job.steps->share[index_of(StepPart::other)] : 0;
  const double lost = std::min({idle, in_steps, removable(trace, StepPart::other)});
  if (lost < kOwnCodeShare) return;
  // one step's may come once
  const double confidence = trace.steps < 2 ? 0.45 : trace.has_python_rows ? 0.75 : 0.85;
  Finding finding =
      about_trace(FindingCode::slow_host_code, seen, confidence, lost,
                  {{"idle_in_own_code", idle, kOwnCodeShare, "fraction"},
                   {"step_without_it_ms", trace.step_ms * (1 - lost), std::nullopt, "ms"}});
  for (const TraceCode& code : trace.code)
    if (finding.where.size() < 3 && code.idle_ms_a_step > 0.1 * idle * trace.step_ms)
      finding.where.push_back({code.file, code.line});
  if (trace.ranks.size() > 1) finding.ranks = ranks_with(trace, StepPart::other);
  findings.push_back(std::move(finding));
}

void find_launch_delay(const SeenTrace& seen, std::vector<Finding>& findings) {
  const TraceSignals& trace = seen.trace;
  const double idle = idle_while_launching(trace);
  const double lost = std::min(idle, trace.removable_launches);
  if (lost < kLaunchShare) return;
  std::vector<Evidence> evidence = {
      {"idle_while_launching", idle, kLaunchShare, "fraction"},
      {"kernels_a_step", trace.kernels_a_step, std::nullopt, "number"},
      {"kernel_p50", trace.kernel_p50_us, std::nullopt, "us"}};
  if (trace.has_python_rows)
    evidence.push_back({"stacks were recorded, which slows the host: without them it may be less",
                        1, std::nullopt, "message"});
  // one pass may be the first
  const double confidence = trace.steps < 2 ? 0.45 : trace.has_python_rows ? 0.6 : 0.85;
  findings.push_back(
      about_trace(FindingCode::launch_bound, seen, confidence, lost, std::move(evidence)));
}

}  // namespace

void find_host_delays(const SeenTrace& seen, std::vector<Finding>& findings) {
  find_input(seen, findings);
  find_copies(seen, findings);
  find_waits(seen, findings);
  find_rests(seen, findings);
  find_own_code(seen, findings);
  find_launch_delay(seen, findings);
}

}  // namespace lockstep
