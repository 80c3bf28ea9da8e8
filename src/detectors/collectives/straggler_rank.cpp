// C401: one rank is late step after step, and the others wait for it.
//
// Why it shows: ranks meet in every step's all-reduce. Those that come early spin there: 100 % busy
// at low power. The last one never spins: either its GPU is empty meanwhile (its host is late) or
// it still computes at full power (its GPU is slow, or its batch is longer). So the culprit is the
// one with the least hollow time, never the one that spends most time in NCCL. Confused with:
// stalls that come every so often (checkpoint-stall, evaluation-stall), collectives that are slow
// for all (exposed-collectives: all ranks equally hollow), a stuck collective (does not end).
// Blind: without power or SM; where the lateness moves from rank to rank (uneven lengths).
#include "base/median.hpp"
#include "detectors/all_detectors.hpp"
#include "detectors/collectives/slow_host.hpp"
#include "detectors/probe_tools.hpp"

namespace lockstep {
namespace {

constexpr double kGapAtLeast = 0.12;  // of the time; healthy ranks differ by 0.02 to 0.05

void name_rank(const JobSignals& job, int gpu, Finding& finding) {
  finding.gpus = {gpu};
  if (const ProcessSample* const process = process_on(job, gpu)) {
    finding.pids = {process->pid};
    if (process->rank) finding.ranks = {*process->rank};
  }
}

// Waiting in stretches of a second and more that come every so often, or came once, belongs to
// other findings.
double rare_stretches(const JobSignals& job) {
  return stalls_are_rare(job) || job.stalls.all.size() == 1 ? job.stalls.share : 0;
}

std::optional<Finding> straggler_from_outside(const JobSignals& job, const Signals& signals) {
  if (job.members.size() < 2 || !trains(job)) return std::nullopt;
  std::size_t culprit = 0;
  for (std::size_t i = 0; i < job.members.size(); ++i) {
    if (!job.members[i].hollow || !job.members[i].busy) return std::nullopt;
    if (*job.members[i].hollow * *job.members[i].busy <
        *job.members[culprit].hollow * *job.members[culprit].busy)
      culprit = i;
  }
  const double others = *median_hollow_of_others(job, culprit);
  std::vector<double> waits;
  for (std::size_t i = 0; i < job.members.size(); ++i)
    if (i != culprit) waits.push_back(*job.members[i].hollow * *job.members[i].busy);
  const double usual_wait = middle_value(waits);
  const double own = *job.members[culprit].hollow * *job.members[culprit].busy;
  const double gap = usual_wait - own - rare_stretches(job);
  if (gap < kGapAtLeast) return std::nullopt;
  if (job.longest_hollow_ms > 10'000) return std::nullopt;  // stuck, not late
  // A rank that is late step after step waits for nobody but the link. One that waits as well is
  // late by turns, in whatever turns chance has dealt out (C410).
  constexpr double kWaitsItself = 0.3;  // of what the others wait
  const bool moments_tell =
      job.time && job.time->resolved && job.fine && job.fine->kind == LaneKind::power_samples;
  if (moments_tell &&
      own - job.time->waiting_together > kWaitsItself * (usual_wait - job.time->waiting_together))
    return std::nullopt;
  const bool host_late = *job.members[culprit].busy < 0.8 * *job.members[culprit == 0 ? 1 : 0].busy;
  Finding finding = about_job(
      FindingCode::straggler_rank, job, gap > 0.3 ? Severity::critical : Severity::warning,
      is_coarse(signals) ? 0.45 : 0.75, gap,
      {{"others_hollow", others, std::nullopt, "fraction"},
       {"own_hollow", *job.members[culprit].hollow, std::nullopt, "fraction"},
       {"waiting_gap", gap, kGapAtLeast, "fraction"},
       {host_late ? "late_on_the_host" : "slow_on_the_gpu", 1, std::nullopt, "yes"}});
  name_rank(job, job.members[culprit].index, finding);
  return finding;
}

// The rank that works while the others rest is the one that they wait for, whether they spin (NCCL)
// or sleep (Gloo) meanwhile.
std::optional<Finding> straggler_from_lanes(const JobSignals& job, const Signals& signals) {
  constexpr double kForOne = 0.8;  // of all waiting for a rank that works
  if (!trains(job) || !job.time || !job.time->resolved || job.members.size() < 2 ||
      job.longest_hollow_ms > 10'000)
    return std::nullopt;
  const auto rests = [](const GpuInJob& member) { return 1 - member.time->working; };
  if (std::ranges::any_of(job.members, [](const GpuInJob& member) { return !member.time; }))
    return std::nullopt;
  const auto culprit = std::ranges::max_element(
      job.members, {}, [](const GpuInJob& member) { return member.time->waited_for; });
  std::vector<double> others;
  for (const GpuInJob& member : job.members)
    if (member.index != culprit->index) others.push_back(rests(member));
  const double gap = middle_value(others) - rests(*culprit) - rare_stretches(job);
  if (culprit->time->waited_for < kForOne || gap < kGapAtLeast) return std::nullopt;
  Finding finding = about_job(
      FindingCode::straggler_rank, job, gap > 0.3 ? Severity::critical : Severity::warning,
      is_coarse(signals) || !is_known_as_one(job) ? 0.45 : 0.75, gap,
      {{"others_rest", middle_value(others), std::nullopt, "fraction"},
       {"works_while_they_rest", culprit->time->waited_for, kForOne, "fraction"},
       {"waiting_gap", gap, kGapAtLeast, "fraction"}});
  name_rank(job, culprit->index, finding);
  return finding;
}

// Ranks do the same work, so one that is busy less than all others while they never rest is the
// late one: they spin for the rest. Needs neither power nor SM.
std::optional<Finding> from_busy(const JobSignals& job, const Signals& signals) {
  constexpr double kOthersAtLeast = 0.9;
  if (job.members.size() < 2 || !trains(job) || job.longest_hollow_ms > 10'000) return std::nullopt;
  std::size_t culprit = 0;
  for (std::size_t i = 0; i < job.members.size(); ++i)
    if (job.members[i].busy.value_or(1) < job.members[culprit].busy.value_or(1)) culprit = i;
  double others = 1;
  for (std::size_t i = 0; i < job.members.size(); ++i)
    if (i != culprit) others = std::min(others, job.members[i].busy.value_or(0));
  const double gap = others - job.members[culprit].busy.value_or(1) - rare_stretches(job);
  if (gap < kGapAtLeast || others < kOthersAtLeast) return std::nullopt;
  // It rests while another works: it waits itself.
  if (job.time && job.time->resolved && job.members[culprit].time &&
      job.members[culprit].time->waited_for < 0.2)
    return std::nullopt;
  Finding finding = about_job(
      FindingCode::straggler_rank, job, gap > 0.3 ? Severity::critical : Severity::warning,
      is_coarse(signals) || !is_known_as_one(job) ? 0.45 : 0.7, gap,
      {{"busy_of_the_others", others, kOthersAtLeast, "fraction"},
       {"own_busy", job.members[culprit].busy.value_or(0), std::nullopt, "fraction"},
       {"late_on_the_host", 1, std::nullopt, "yes"}});
  name_rank(job, job.members[culprit].index, finding);
  return finding;
}

// The line on which the late rank spends what the others do not.
void name_lateness(const JobSignals& job, const RankSteps& late, Finding& finding) {
  std::size_t part = kStepSpanNames.size();
  double most = 0.02;
  for (std::size_t i = 0; i < kStepSpanNames.size(); ++i) {
    if (i == index_of(StepPart::collective_exposed) || i == index_of(StepPart::collective_hidden))
      continue;
    std::vector<double> others;
    for (const RankSteps& rank : job.steps->ranks)
      if (rank.rank != late.rank) others.push_back(rank.usual_share[i]);
    const double excess = late.usual_share[i] - middle_value(others);
    if (excess > most) {
      most = excess;
      part = i;
    }
  }
  if (part == kStepSpanNames.size()) return;
  finding.evidence.push_back(
      {"late_by_" + std::string(kStepSpanNames[part]), most, std::nullopt, "fraction"});
  if (!is_probed(job)) return;
  const PlaceSignals* line = nullptr;
  for (const PlaceSignals& place : job.steps->places) {
    const bool of_late = place.ranks.size() == 1 && place.ranks.front() == late.rank;
    if (index_of(place.part) == part && !place.place.file.empty() &&
        (line == nullptr || (of_late && place.most_share > line->most_share)))
      line = &place;
  }
  if (line != nullptr) name_line(finding, line->place);
}

void name_process(const JobSignals& job, int rank, Finding& finding) {
  for (const ProcessSample& process : job.processes)
    if (process.rank == rank) {
      finding.pids = {process.pid};
      finding.gpus.clear();
      for (const ProcessOnGpu& use : process.gpus) finding.gpus.push_back(use.index);
    }
}

std::optional<Finding> straggler_from_steps(const JobSignals& job) {
  const std::size_t exposed = index_of(StepPart::collective_exposed);
  const std::vector<RankSteps>& ranks = job.steps->ranks;
  if (ranks.size() < 2) return std::nullopt;
  const auto late = std::ranges::min_element(ranks, [&](const RankSteps& a, const RankSteps& b) {
    return a.usual_share[exposed] < b.usual_share[exposed];
  });
  std::vector<double> waits;
  for (const RankSteps& rank : ranks)
    if (&rank != &*late) waits.push_back(rank.usual_share[exposed]);
  const double usual_wait = middle_value(waits);
  const double gap = usual_wait - late->usual_share[exposed];
  constexpr double kStepGapAtLeast = 0.08;
  // Of the steps; chance gives one in n. (Two busy cores: the same two healthy ranks had 0.35 to
  // 0.65.)
  const double kLastAtLeast =
      ranks.size() == 2 ? 0.8 : std::max(0.5, 2.0 / static_cast<double>(ranks.size()));
  if (gap < kStepGapAtLeast || late->last_to_arrive < kLastAtLeast) return std::nullopt;
  Finding finding =
      about_job(FindingCode::straggler_rank, job,
                gap > 0.3 ? Severity::critical : Severity::warning, 0.9, gap,
                {{"others_wait_share", usual_wait, std::nullopt, "fraction"},
                 {"own_wait_share", late->usual_share[exposed], std::nullopt, "fraction"},
                 {"waiting_gap", gap, kStepGapAtLeast, "fraction"}});
  finding.rung = 1;
  name_lateness(job, *late, finding);
  finding.ranks = {late->rank};
  name_process(job, late->rank, finding);
  return finding;
}

// Where each rank's GPU was seen coming to each collective. The last waits for nobody and has the
// shortest kernel: whoever spends most time in NCCL is never the culprit.
std::optional<Finding> from_arrivals(const JobSignals& job) {
  constexpr std::size_t kCollectivesAtLeast = 10;
  // of all lateness; two ranks that are late in turn have half each
  constexpr double kLateShare = 0.6;
  constexpr double kLateAtLeast = 0.03;
  const CollectiveSignals& collectives = *job.collectives;
  if (collectives.matched < kCollectivesAtLeast || collectives.ranks.size() < 2)
    return std::nullopt;
  const RankArrival& late = *std::ranges::max_element(
      collectives.ranks,
      [](const RankArrival& a, const RankArrival& b) { return a.late < b.late; });
  // Of the collectives; chance gives one in n.
  const double last_at_least =
      collectives.ranks.size() == 2
          ? 0.7
          : std::max(0.5, 2.0 / static_cast<double>(collectives.ranks.size()));
  if (late.late < kLateAtLeast || late.late_share < kLateShare || late.last < last_at_least)
    return std::nullopt;
  const bool on_host = late.late_on_host >= late.late_on_gpu;
  Finding finding =
      about_job(FindingCode::straggler_rank, job,
                late.late > 0.3 ? Severity::critical : Severity::warning, 0.95, late.late,
                {{"others_wait_for_it", late.late, kLateAtLeast, "fraction"},
                 {"share_of_all_lateness", late.late_share, kLateShare, "fraction"},
                 {"last_at_collectives", late.last, last_at_least, "fraction"},
                 {"late_since_its_host_asked_late", late.late_on_host, std::nullopt, "fraction"},
                 {"late_since_its_gpu_was_busy", late.late_on_gpu, std::nullopt, "fraction"}});
  finding.evidence.push_back(
      {on_host ? "late_on_the_host" : "slow_on_the_gpu", 1, std::nullopt, "yes"});
  finding.rung = 2;
  finding.ranks = {late.rank};
  if (job.steps && job.steps->count >= 5)
    for (const RankSteps& rank : job.steps->ranks)
      if (rank.rank == late.rank) name_lateness(job, rank, finding);
  name_process(job, late.rank, finding);
  return finding;
}

// The rank is late since somebody else has its core: that is why each part of its step is long.
bool waits_for_its_core(const JobSignals& job, const Finding& finding) {
  constexpr double kMostOfIt = 0.5;
  if (!job.settings || finding.ranks.size() != 1) return false;
  const auto found = job.settings->waits_for_a_core.find(finding.ranks.front());
  return found != job.settings->waits_for_a_core.end() &&
         found->second >= kMostOfIt * finding.lost_throughput;
}

}  // namespace

std::vector<Finding> find_straggler_rank(const Seen& seen) {
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < seen.signals.jobs.size(); ++i) {
    const JobSignals& job = seen.signals.jobs[i];
    if (pattern_of(seen, i) != Pattern::in_step || job.one_process_on_all) continue;
    if (!absent_members(job, seen.signals).empty()) continue;  // who never came is not late: C406
    const bool timed_on_gpus = job.collectives && job.collectives->on_device;
    const bool arrivals = timed_on_gpus && job.collectives->matched > 0;
    // Hosts do not wait for NCCL: without the GPUs' times their steps do not show who is late.
    const bool marked = job.steps && job.steps->count >= 5 && (!job.collectives || timed_on_gpus);
    if (job.spread && !arrivals && !marked)
      if (auto host = find_slow_host(job)) {
        findings.push_back(std::move(*host));
        continue;
      }
    auto finding = arrivals ? from_arrivals(job)
                   : marked ? straggler_from_steps(job)
                            : straggler_from_outside(job, seen.signals);
    if (!finding && !marked && !arrivals) finding = straggler_from_lanes(job, seen.signals);
    if (!finding && !marked && !arrivals) finding = from_busy(job, seen.signals);
    if (finding && waits_for_its_core(job, *finding)) continue;  // X709
    // A GPU that is gone is not late: H605 says what the others wait for.
    const auto is_lost = [&](int gpu) {
      return std::ranges::any_of(seen.signals.events, [gpu](const EventAt& entry) {
        return entry.event.kind == "lost" && entry.event.gpu == gpu;
      });
    };
    if (finding && !std::ranges::any_of(finding->gpus, is_lost))
      findings.push_back(std::move(*finding));
  }
  return findings;
}

}  // namespace lockstep
