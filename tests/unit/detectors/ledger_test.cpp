// The ledger: one account of a job's GPU time, from which every finding takes its cost.
#include "detectors/ledger.hpp"

#include <numeric>

#include "detectors/diagnosis.hpp"
#include "finding_checks.hpp"

namespace lockstep {
namespace {

using namespace testing;

double sum_of(const Ledger& ledger) {
  return std::accumulate(ledger.share.begin(), ledger.share.end(), 0.0);
}

// Every GPU of the first job spends its time like this.
void spend(Signals& signals, GpuTime time, double idle_together, double waiting_together = 0) {
  JobSignals& job = signals.jobs.front();
  for (GpuInJob& member : job.members) {
    member.time = time;
    member.busy = 1 - time.idle;
    member.hollow = time.waiting / (1 - time.idle);
  }
  job.idle_together = idle_together;
  job.time = JobTime{idle_together, waiting_together, true, true, 0};
}

Finding claim(FindingCode code, double lost, double confidence = 0.8) {
  Finding finding;
  finding.code = code;
  finding.lost_throughput = lost;
  finding.confidence = confidence;
  finding.gpus = {0, 1, 2, 3};
  finding.pids = {4242};
  return finding;
}

Ledger settled(const Signals& signals, std::vector<Finding>& findings) {
  const std::vector<JobVerdict> verdicts = judge_patterns(signals);
  return settle({signals, verdicts}, findings).at(0);
}

TEST(TheLedger, GivesEveryMomentToOnePart) {
  for (const Signals& signals : {healthy_ranks(4), split_model(2), data_parallel(4), pipeline_of(4),
                                 alone(2), server(2), nothing_runs(2)}) {
    const Diagnosis diagnosis = diagnose(signals);
    ASSERT_EQ(diagnosis.ledgers.size(), signals.jobs.size());
    for (const Ledger& ledger : diagnosis.ledgers) {
      EXPECT_NEAR(sum_of(ledger), 1, 1e-9);
      EXPECT_GT(ledger.gpu_seconds, 0);
      for (const double share : ledger.share) EXPECT_GE(share, 0);
    }
  }
}

TEST(TheLedger, SaysWhatIsNotKnown) {
  Signals signals = healthy_ranks(4);
  spend(signals, {0.7, 0, 0.3, 0}, 0.3);
  std::vector<Finding> nothing;

  const Ledger ledger = settled(signals, nothing);

  EXPECT_NEAR(ledger[LedgerPart::working], 0.7, 1e-9);
  EXPECT_NEAR(ledger[LedgerPart::unknown], 0.3, 1e-9);
}

TEST(TheLedger, ChargesACauseForTheIdleTimeAndNobodyForMore) {
  Signals signals = healthy_ranks(4);
  spend(signals, {0.7, 0, 0.3, 0}, 0.3);
  std::vector<Finding> findings = {claim(FindingCode::input_starved, 0.8)};

  const Ledger ledger = settled(signals, findings);

  EXPECT_NEAR(ledger[LedgerPart::input], 0.3, 1e-9);
  EXPECT_NEAR(findings.front().lost_throughput, 0.3, 1e-9) << "a GPU that is busy 70 % loses no 80";
}

TEST(TheLedger, ChargesNobodyWhoIsAsLikelyAsNot) {
  Signals signals = healthy_ranks(4);
  spend(signals, {0.7, 0, 0.3, 0}, 0.3);
  std::vector<Finding> findings = {claim(FindingCode::input_starved, 0.3, 0.5)};

  EXPECT_NEAR(settled(signals, findings)[LedgerPart::unknown], 0.3, 1e-9);
  EXPECT_NEAR(findings.front().lost_throughput, 0.3, 1e-9) << "if it is that, it costs as much";
}

TEST(TheLedger, SaysWhereWorkingHoldsWaiting) {
  Signals signals = healthy_ranks(4);
  spend(signals, {0.7, 0.3, 0, 0}, 0, 0.3);
  std::vector<Finding> nothing;
  EXPECT_TRUE(settled(signals, nothing).waiting_is_known);

  signals.jobs.front().time->waiting_is_known = false;
  const Ledger ledger = settled(signals, nothing);
  EXPECT_FALSE(ledger.waiting_is_known);
  EXPECT_NEAR(ledger[LedgerPart::working], 1, 1e-9);
}

TEST(TheLedger, TakesTheRestOfRanksInStepForOneThoughWindowsBlurIt) {
  Signals signals = healthy_ranks(4);
  spend(signals, {0.7, 0, 0.3, 0}, 0.05);
  signals.jobs.front().time->sees_rest = false;
  std::vector<Finding> findings = {claim(FindingCode::input_starved, 0.3)};

  EXPECT_NEAR(settled(signals, findings)[LedgerPart::input], 0.3, 1e-9);
}

TEST(TheLedger, ChargesTheEarliestOnTheCriticalPath) {
  Signals signals = healthy_ranks(4);
  spend(signals, {0.6, 0, 0.4, 0}, 0.4);
  std::vector<Finding> findings = {claim(FindingCode::host_sync_every_step, 0.4),
                                   claim(FindingCode::input_starved, 0.25)};

  const Ledger ledger = settled(signals, findings);

  EXPECT_NEAR(ledger[LedgerPart::input], 0.25, 1e-9) << "without data nothing is launched";
  EXPECT_NEAR(ledger[LedgerPart::sync], 0.15, 1e-9) << "what is left";
}

TEST(TheLedger, DoesNotCountACauseAndItsEffectTwice) {
  Signals signals = healthy_ranks(4);
  spend(signals, {0.7, 0, 0.3, 0}, 0.3);
  std::vector<Finding> findings = {claim(FindingCode::input_starved, 0.3),
                                   claim(FindingCode::loader_without_workers, 0.3)};
  const std::vector<JobVerdict> verdicts = judge_patterns(signals);

  const auto ledgers = settle({signals, verdicts}, findings);
  const auto throughput = throughput_of({signals, verdicts}, ledgers, findings);

  EXPECT_NEAR(ledgers.at(0)[LedgerPart::input], 0.3, 1e-9);
  EXPECT_EQ(findings.at(1).cause_of, FindingCode::input_starved);
  ASSERT_TRUE(throughput);
  EXPECT_NEAR(throughput->now, 0.7, 1e-9);
}

TEST(TheLedger, TakesSlowLaunchingBehindWaitsForTheirEffect) {
  Signals signals = healthy_ranks(4);
  spend(signals, {0.86, 0, 0.14, 0}, 0.14);
  std::vector<Finding> findings = {claim(FindingCode::host_sync_every_step, 0.12, 0.85),
                                   claim(FindingCode::launch_bound, 0.14, 0.6)};
  settled(signals, findings);
  EXPECT_EQ(findings.front().cause_of, FindingCode::launch_bound);

  findings.back().confidence = 0.95;
  settled(signals, findings);
  EXPECT_FALSE(findings.front().cause_of) << "the host is slow, waits or not";
}

TEST(TheLedger, CountsTheHoursOfAllThatWait) {
  Signals signals = healthy_ranks(8);
  for (GpuInJob& member : signals.jobs.front().members) member.time = GpuTime{0.78, 0.2, 0.02, 0};
  signals.jobs.front().members[3].time = GpuTime{0.98, 0, 0.02, 1};
  signals.jobs.front().time = JobTime{0.02, 0, true, true, 0};
  std::vector<Finding> findings = {claim(FindingCode::straggler_rank, 0.2)};
  findings.front().gpus = {3};  // the guilty one

  const Ledger ledger = settled(signals, findings);

  EXPECT_NEAR(ledger[LedgerPart::other_rank], 0.2 * 7 / 8, 1e-9);
  EXPECT_NEAR(findings.front().lost_throughput, 0.2, 1e-6);
  EXPECT_NEAR(findings.front().lost_gpu_hours_a_day, 38.4, 0.1) << "8 GPUs, not the late one's 4.8";
}

TEST(TheLedger, TakesWaitingForTheLinkFromWhatAllWaitAtOnce) {
  Signals signals = healthy_ranks(4);
  spend(signals, {0.7, 0.28, 0.02, 0.25}, 0.02, 0.28);
  std::vector<Finding> nothing;

  const Ledger ledger = settled(signals, nothing);

  EXPECT_NEAR(ledger[LedgerPart::link], 0.28, 1e-9);
  EXPECT_NEAR(ledger[LedgerPart::other_rank], 0, 1e-9);
}

TEST(TheLedger, GivesAGpuThatNobodyUsesToNobody) {
  Signals signals = nothing_runs(2);
  std::vector<Finding> nothing;

  EXPECT_NEAR(settled(signals, nothing)[LedgerPart::unused], 1, 1e-9);
}

TEST(TheLedger, CountsAGpuThatIsGoneForAsLongAsItWasRead) {
  Signals signals = healthy_ranks(2);
  spend(signals, {0.2, 0.8, 0, 0}, 0);
  GpuInJob& gone = signals.jobs.front().members.at(1);
  gone.time = GpuTime{1, 0, 0, 0, 0.75};  // it worked until it fell off the bus
  signals.jobs.front().time->unread = 0.375;
  std::vector<Finding> nothing;

  const Ledger ledger = settled(signals, nothing);

  EXPECT_NEAR(ledger[LedgerPart::unknown], 0.375, 1e-9);
  EXPECT_NEAR(ledger.unread, 0.375, 1e-9);
  EXPECT_NEAR(ledger[LedgerPart::working], (0.2 + 0.25) / 2, 1e-9);
  EXPECT_NEAR(ledger[LedgerPart::other_rank], 0.4, 1e-9);
}

TEST(TheLedger, ChargesALateRankThatIsSlowOnce) {
  Signals signals = healthy_ranks(4);
  for (std::size_t i = 0; i < 4; ++i)
    signals.jobs.front().members[i].time =
        i == 3 ? GpuTime{0.98, 0, 0.02, 0.9} : GpuTime{0.83, 0.15, 0.02, 0.03};
  signals.jobs.front().time = JobTime{0.02, 0, true, true, 0};
  std::vector<Finding> findings = {claim(FindingCode::thermal_throttle, 0.15),
                                   claim(FindingCode::straggler_rank, 0.15)};
  for (Finding& finding : findings) finding.gpus = {3};

  const Ledger ledger = settled(signals, findings);

  EXPECT_NEAR(ledger[LedgerPart::slowed], 0.15, 0.01);
  EXPECT_NEAR(ledger[LedgerPart::other_rank], 0, 0.01) << "they wait for the slow one, once";
  EXPECT_NEAR(ledger[LedgerPart::working], 0.83, 0.01);
}

TEST(TheLedger, LosesNoMoreThanThereIsWhereTwoFindingsClaimTheSameMoments) {
  Signals signals = healthy_ranks(4);
  spend(signals, {0.5, 0, 0.5, 0}, 0.5);
  std::vector<Finding> findings = {claim(FindingCode::input_starved, 0.5),
                                   claim(FindingCode::stopped_by_collector, 0.5)};
  const std::vector<JobVerdict> verdicts = judge_patterns(signals);

  const auto ledgers = settle({signals, verdicts}, findings);
  const auto throughput = throughput_of({signals, verdicts}, ledgers, findings);

  ASSERT_TRUE(throughput);
  EXPECT_NEAR(throughput->now, 0.5, 1e-6) << "half of the time the GPUs work";
}

TEST(TheLedger, WeighsJobsByTheirGpus) {
  Signals signals = healthy_ranks(6);
  Signals second = healthy_ranks(2);
  JobSignals& other = second.jobs.front();
  for (std::size_t i = 0; i < other.gpus.size(); ++i)
    other.gpus[i] = other.members[i].index = 6 + static_cast<int>(i);
  other.pids = {9001, 9002};
  signals.jobs.push_back(other);
  for (JobSignals& job : signals.jobs) {
    for (GpuInJob& member : job.members) member.time = GpuTime{0.5, 0, 0.5, 0};
    job.time = JobTime{0.5, 0, true, true, 0};
  }
  const std::vector<JobVerdict> verdicts = judge_patterns(signals);
  std::vector<Finding> findings = {claim(FindingCode::input_starved, 0.4)};
  findings.front().pids = {9001};
  findings.front().gpus = {6, 7};

  const auto ledgers = settle({signals, verdicts}, findings);
  const auto throughput = throughput_of({signals, verdicts}, ledgers, findings);

  ASSERT_TRUE(throughput);
  EXPECT_NEAR(throughput->now, (6 * 1.0 + 2 * 0.5) / 8, 1e-6)
      << "the first job is well, the second loses half";
}

TEST(TheLedger, KeepsAGpuAtItsDefaultPowerAtWork) {
  Signals signals = healthy_ranks(1);
  for (GpuSignals& gpu : signals.gpus) {
    gpu.info.name = "NVIDIA H200";
    gpu.info.power_limit_mw = gpu.info.power_limit_default_mw = 700'000;
    gpu.clock_mhz = gpu.clock_while_limited_mhz = 1600;
    gpu.clock_highest_mhz = 1980;
    gpu.limit_shares.emplace();
    (*gpu.limit_shares)[static_cast<std::size_t>(ClockLimit::sw_power_cap)] = 0.95;
    gpu.limit_looks = 50;
  }
  spend(signals, {0.98, 0, 0.02, 0}, 0.02);

  const Diagnosis diagnosis = diagnose(signals);

  EXPECT_NEAR(diagnosis.ledgers.at(0)[LedgerPart::slowed], 0, 1e-9);
  EXPECT_NEAR(diagnosis.ledgers.at(0)[LedgerPart::working], 0.98, 1e-9);
}

// One rank's own code and the waiting of the others are one loss, by whatever it is late.
TEST(TheLedger, CountsALateRanksOwnDelayOnce) {
  const Signals signals = healthy_ranks(4);
  const auto late_by = [](const char* part) {
    Finding late = claim(FindingCode::straggler_rank, 0.5, 0.9);
    late.ranks = {1};
    late.evidence = {{std::string("late_by_") + part, 0.5, std::nullopt, "fraction"}};
    return late;
  };
  const auto by_rank_1 = [](FindingCode code) {
    Finding own = claim(code, 0.4, 0.85);
    own.ranks = {1};
    return own;
  };
  std::vector<Finding> sleeps = {late_by("other"), by_rank_1(FindingCode::slow_host_code)};
  std::vector<Finding> saves = {late_by("backward"), by_rank_1(FindingCode::checkpoint_stall)};

  settled(signals, sleeps);
  settled(signals, saves);

  std::vector<Finding> waits = {late_by("data_wait"), claim(FindingCode::input_starved, 0.6)};
  settled(signals, waits);
  EXPECT_EQ(waits[1].cause_of, FindingCode::straggler_rank) << "though others wait a little, too";
  EXPECT_EQ(sleeps[1].cause_of, FindingCode::straggler_rank);
  EXPECT_FALSE(saves[1].cause_of) << "a save now and then is not what makes its backward long";
}

}  // namespace
}  // namespace lockstep
