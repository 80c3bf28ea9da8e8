// C410: ranks wait for each other because their work differs from step to step.
//
// Why it shows: each rank draws its own batch, and a batch of long sequences or large images takes
// longer. The step ends with the slowest, and who that is changes: in a stretch of many steps every
// rank waits, and every rank is waited for. All begin the next step together. Confused with:
// straggler-rank (one rank is waited for most of the time), exposed-collectives (all wait at once
// while none works), a pipeline (stages begin one after the other, and have the same hole in each
// step), ranks that wait for a core (X709). Blind: without power samples or SM readings finer than
// a step; steps shorter than 60 ms.
#include <map>

#include "detectors/all_detectors.hpp"
#include "detectors/probe_tools.hpp"

namespace lockstep {
namespace {

// of the time; ranks of a healthy run wait 0.01 to 0.04 for each other
constexpr double kUnevenAtLeast = 0.08;
// by SM readings, which are means over a tenth of a second: eight stages read 0.08
constexpr double kUnevenByMeans = 0.1;
// a step: below, it is what the scheduler of the host does to ranks that are alike
constexpr double kLeastWaitMs = 3;
constexpr double kClearPeriod = 0.85;
// Where hardly ever two ranks rest at once (two of them, with short transfers), nobody is seen to
// begin together. Then only a period as unclear as this says that these are no stages.
constexpr double kNoPeriod = 0.5;
// of all waiting: more on one rank is a straggler's
constexpr double kOnOneAtMost = 0.6;

double most_by_chance(std::size_t ranks) {
  return ranks == 2 ? 0.75 : std::max(kOnOneAtMost, 2.0 / static_cast<double>(ranks));
}

// Who came late because it had no core has no more work than the others.
double beside_waiting_for_cores(double waiting, const JobSignals& job) {
  return waiting - job.host.waiting_for_cpu.value_or(0);
}

// Waits of a second and more that are saves or evaluations: for the same rank each time, or for
// none that works. Those of long uneven steps are for one rank and another.
double waits_for_the_same(const JobSignals& job) {
  constexpr double kMostly = 0.8;
  constexpr std::size_t kFewestByChance = 4;
  if (job.stalls.all.empty()) return 0;
  std::map<int, std::size_t> worked;
  std::size_t by_one = 0;
  for (const Stall& stall : job.stalls.all)
    if (stall.workers.size() == 1) {
      ++by_one;
      ++worked[stall.workers.front()];
    }
  std::size_t most = 0;
  for (const auto& [gpu, count] : worked) most = std::max(most, count);
  const bool is_one = by_one < kFewestByChance ||
                      static_cast<double>(most) >= kMostly * static_cast<double>(by_one);
  const auto none_works = static_cast<std::size_t>(std::ranges::count_if(
      job.stalls.all, [](const Stall& stall) { return stall.workers.empty(); }));
  const double share = job.stalls.share / static_cast<double>(job.stalls.all.size());
  return share * static_cast<double>(none_works + (is_one ? by_one : 0));
}

std::optional<Finding> uneven_from_outside(const JobSignals& job) {
  if (!job.time || !job.time->resolved || job.members.size() < 2 || job.longest_hollow_ms > 10'000)
    return std::nullopt;
  // Fine lanes, in which steps are seen: what a mean hides cannot be told for one rank or another.
  if (!job.fine || job.fine->kind == LaneKind::busy) return std::nullopt;
  const bool is_seen = job.fine->rises_together && begin_together(*job.fine);
  if (!is_seen && job.fine->period_strength > kNoPeriod) return std::nullopt;
  // Steps of uneven lengths have an unclear period, 0.2 to 0.75; one as clear as this is that of
  // stages whose holes are the same in every step.
  if (job.fine->period_strength > kClearPeriod) return std::nullopt;
  double waiting = 0;
  double least = 1;
  double most_waited_for = 0;
  for (const GpuInJob& member : job.members) {
    if (!member.time) return std::nullopt;
    const double own = member.time->waiting - job.time->waiting_together;
    waiting += own / static_cast<double>(job.members.size());
    least = std::min(least, own);
    most_waited_for = std::max(most_waited_for, member.time->waited_for);
  }
  waiting = beside_waiting_for_cores(waiting, job) - waits_for_the_same(job);
  const double allowed = most_by_chance(job.members.size());
  const double enough = job.fine->kind == LaneKind::sm ? kUnevenByMeans : kUnevenAtLeast;
  if (waiting < enough || most_waited_for > allowed || least < 0.25 * waiting) return std::nullopt;
  std::vector<Evidence> evidence = {{"ranks_wait_for_each_other", waiting, enough, "fraction"},
                                    {"most_waited_for_rank", most_waited_for, allowed, "fraction"}};
  if (is_seen)
    evidence.push_back({"steps_begun_together", *job.fine->rises_together, 0.5, "fraction"});
  return about_job(FindingCode::uneven_work, job,
                   waiting > 0.3 ? Severity::critical : Severity::warning,
                   is_known_as_one(job) ? 0.75 : 0.45, waiting, std::move(evidence));
}

// What one rank saves or evaluates more than the mean of all, the others wait.
double waited_for_a_rare_stop(const StepSignals& steps) {
  double waited = 0;
  for (const StepPart part : {StepPart::checkpoint, StepPart::evaluation}) {
    double most = 0;
    for (const RankSteps& rank : steps.ranks) most = std::max(most, rank.share[index_of(part)]);
    waited += most - steps.share[index_of(part)];
  }
  return waited;
}

std::optional<Finding> uneven_from_steps(const JobSignals& job) {
  const std::vector<RankSteps>& ranks = job.steps->ranks;
  if (ranks.size() < 2 || job.steps->count < 20) return std::nullopt;
  const std::size_t exposed = index_of(StepPart::collective_exposed);
  double most_last = 0;
  for (const RankSteps& rank : ranks) most_last = std::max(most_last, rank.last_to_arrive);
  // Nor has who came late because its data did, nor who saved or evaluated while the others waited.
  const double waiting =
      beside_waiting_for_cores(job.steps->share[exposed] - job.steps->exposed_on_all -
                                   job.steps->uneven_data_wait - waited_for_a_rare_stop(*job.steps),
                               job);
  const double allowed = most_by_chance(ranks.size());
  if (waiting < kUnevenAtLeast || waiting * job.steps->duration_p50_ms < kLeastWaitMs ||
      most_last > allowed)
    return std::nullopt;
  Finding finding = about_job(FindingCode::uneven_work, job,
                              waiting > 0.3 ? Severity::critical : Severity::warning, 0.8, waiting,
                              {{"ranks_wait_for_each_other", waiting, kUnevenAtLeast, "fraction"},
                               {"most_often_last", most_last, allowed, "fraction"}});
  finding.rung = 1;
  return finding;
}

}  // namespace

std::vector<Finding> find_uneven_work(const Seen& seen) {
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < seen.signals.jobs.size(); ++i) {
    const JobSignals& job = seen.signals.jobs[i];
    if (pattern_of(seen, i) != Pattern::in_step || job.one_process_on_all || !trains(job)) continue;
    auto finding =
        job.steps && job.steps->count >= 5 ? uneven_from_steps(job) : uneven_from_outside(job);
    if (finding) findings.push_back(std::move(*finding));
  }
  return findings;
}

}  // namespace lockstep
