// S304: one rank works (evaluates, samples, logs pictures) while the others wait for it.
//
// Why it shows: for a second or more one GPU works and the others spin at the next collective: 100
// % busy at low power. It ends, and it comes again; nothing much is written. Confused with:
// checkpoint-stall (a burst of bytes), straggler-rank (every step, not every so often), evaluation
// on all ranks (all GPUs work: no loss), stuck-collective (does not end). Blind: without power or
// SM a spinning GPU reads like a working one.
#include <map>

#include "detectors/all_detectors.hpp"
#include "detectors/stack_tools.hpp"
#include "detectors/step_share.hpp"

namespace lockstep {
namespace {

// of what the rank that waits most waits: 0.58 of it where each step has a late rank
constexpr double kWaitsInStalls = 0.75;

double most_waiting(const JobSignals& job) {
  double most = 0;
  if (!job.time || !job.time->resolved) return most;
  for (const GpuInJob& member : job.members)
    if (member.time) most = std::max(most, member.time->waiting - job.time->waiting_together);
  return most;
}

std::optional<Finding> evaluation_from_outside(const JobSignals& job, const Signals& signals) {
  constexpr double kLongestStepMs = 8000;
  const StallSignals& stalls = job.stalls;
  // Ranks that share a GPU wait for each other there, which looks the same.
  if (job.gpus.size() < 2 || job.processes.size() > job.gpus.size() || !stalls_are_rare(job))
    return std::nullopt;
  std::ptrdiff_t alike = 0;
  double length = 0;
  std::map<int, std::ptrdiff_t> worked;  // by GPU
  for (const Stall& stall : stalls.all) {
    length += (stall.to_ms - stall.from_ms) / static_cast<double>(stalls.all.size());
    const bool quiet = stall.written_bytes.value_or(0) < kBurstBytes;
    if (!quiet || stall.workers.size() != 1 || stall.spinning_gpus < 0.5) continue;
    ++alike;
    ++worked[stall.workers.front()];
  }
  if (alike * 2 < static_cast<std::ptrdiff_t>(stalls.all.size())) return std::nullopt;
  // It is always the same rank; where it is another each time, their work is uneven (C410).
  const auto most = std::ranges::max_element(
      worked, [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most->second * 10 < alike * 8) return std::nullopt;
  // A late rank of steps that take seconds looks the same, step after step; and where the others
  // wait for it between the stalls, too, these are the longest of its steps.
  const bool may_be_each_step =
      (*stalls.period_ms < kLongestStepMs && length > 0.3 * *stalls.period_ms) ||
      stalls.share < kWaitsInStalls * most_waiting(job);
  Finding finding = about_job(
      FindingCode::evaluation_stall, job, Severity::warning,
      is_coarse(signals) || may_be_each_step || job.origin != JobOrigin::processes ? 0.45 : 0.75,
      stalls.share,
      {{"stalls", static_cast<double>(alike), 2.0, "stalls"},
       {"stall_ms", length, std::nullopt, "ms"},
       {"period_ms", *stalls.period_ms, std::nullopt, "ms"}});
  if (const ProcessSample* const process = process_on(job, most->first);
      process != nullptr && process->rank)
    finding.ranks = {*process->rank};
  return finding;
}

// All ranks evaluate, and by the GPUs' records and their busy time most of that is spent on the
// host.
std::optional<Finding> evaluation_at_rest(const JobSignals& job) {
  constexpr double kIdleAtLeast = 0.05;
  if (!job.steps->devices) return std::nullopt;
  const std::size_t part = index_of(StepPart::evaluation);
  double idle = 0;
  for (const RankDevices& rank : job.steps->devices->ranks) idle = std::max(idle, rank.idle[part]);
  if (idle < kIdleAtLeast) return std::nullopt;
  Finding finding =
      about_job(FindingCode::evaluation_stall, job, Severity::warning, 0.75, idle,
                {{"evaluation_share", job.steps->share[part], std::nullopt, "fraction"},
                 {"gpu_idle_in_evaluation", idle, kIdleAtLeast, "fraction"}});
  finding.rung = 2;
  if (is_probed(job)) name_places(finding, job, main_places(job, StepPart::evaluation));
  return finding;
}

// No rank waits, and no GPU rests: it is simply a good part of the run. For each to say whether
// that is too often.
std::optional<Finding> much_evaluation(const JobSignals& job) {
  constexpr double kAGoodPart = 0.1;
  constexpr int kSeveralTimes = 3;
  const std::size_t part = index_of(StepPart::evaluation);
  const double share = job.steps->share[part];
  const double times = job.steps->present[part] * static_cast<double>(job.steps->count);
  if (share < kAGoodPart || times < kSeveralTimes || job.steps->present[part] > 0.5)
    return std::nullopt;
  Finding finding = about_job(FindingCode::evaluation_stall, job, Severity::info, 0.6, share,
                              {{"evaluation_share", share, kAGoodPart, "fraction"}});
  finding.rung = 1;
  if (is_probed(job)) name_places(finding, job, main_places(job, StepPart::evaluation));
  return finding;
}

}  // namespace

std::vector<Finding> find_evaluation_stall(const Seen& seen) {
  constexpr double kWorthNaming = 0.05;
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < seen.signals.jobs.size(); ++i) {
    const JobSignals& job = seen.signals.jobs[i];
    if (!steps_can_be_judged(seen, i) || !trains(job)) continue;
    if (job.steps && job.steps->count >= 5) {
      // Evaluation by all ranks is work, not a stall: only time that some ranks have and others do
      // not counts.
      const std::size_t part = index_of(StepPart::evaluation);
      const auto evaluating = std::ranges::count_if(
          job.steps->ranks, [&](const RankSteps& rank) { return rank.share[part] > 0.01; });
      if (evaluating == 0) continue;
      if (evaluating * 2 > static_cast<std::ptrdiff_t>(job.steps->ranks.size())) {
        auto finding = evaluation_at_rest(job);
        if (!finding) finding = much_evaluation(job);
        if (finding) findings.push_back(std::move(*finding));
        continue;
      }
      double most = 0;
      for (const RankSteps& rank : job.steps->ranks) most = std::max(most, rank.share[part]);
      if (most < 0.02) continue;
      Finding finding = about_job(FindingCode::evaluation_stall, job, Severity::warning, 0.9, most,
                                  {{"evaluation_share", most, 0.02, "fraction"}});
      finding.rung = 1;
      if (is_probed(job)) name_places(finding, job, main_places(job, StepPart::evaluation));
      findings.push_back(std::move(finding));
      continue;
    }
    if (stacks_tell(job))
      if (auto finding = found_by_stacks(FindingCode::evaluation_stall, StepPart::evaluation, job,
                                         kWorthNaming)) {
        findings.push_back(std::move(*finding));
        continue;
      }
    if (auto finding = evaluation_from_outside(job, seen.signals))
      findings.push_back(std::move(*finding));
  }
  return findings;
}

}  // namespace lockstep
