// What the GPUs' own records, NCCL's collectives and its own count prove: P101, C401, C402, C405,
// C406, S305.
#include "unit/detectors/finding_checks.hpp"

namespace lockstep {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Four ranks whose GPUs compute for `computes` of the time, and for `exposed` only collectives ran.
Signals recorded_ranks(double computes, double exposed) {
  Signals signals = with_steps(healthy_ranks(4));
  DeviceSignals devices;
  devices.steps = 200;
  for (int rank = 0; rank < 4; ++rank) {
    RankDevices of;
    of.rank = rank;
    of.devices = {{0, computes, exposed, 0.1, 0, 1 - computes - exposed, 900}};
    devices.ranks.push_back(of);
  }
  signals.jobs.front().steps->devices = devices;
  return signals;
}

Signals launches_slowly(double idle) {
  Signals signals = recorded_ranks(1 - idle, 0);
  for (RankDevices& rank : signals.jobs.front().steps->devices->ranks) {
    rank.idle[index_of(StepPart::forward)] = idle / 3;
    rank.idle[index_of(StepPart::backward)] = 2 * idle / 3;
    rank.launch_gaps = idle;
    rank.launch_gaps_a_step = 850;
  }
  return signals;
}

CollectiveSignals arrivals(double late_of_third, double on_host) {
  CollectiveSignals collectives;
  collectives.matched = 500;
  collectives.on_device = true;
  collectives.watched_ms = 30'000;
  for (int rank = 0; rank < 4; ++rank) {
    RankArrival arrival;
    arrival.rank = rank;
    arrival.last = rank == 2 ? 0.94 : 0.02;
    arrival.late = rank == 2 ? late_of_third : 0.004;
    arrival.late_on_host = rank == 2 ? on_host : 0.002;
    arrival.late_on_gpu = arrival.late - arrival.late_on_host;
    arrival.late_share = arrival.late / (late_of_third + 0.012);
    collectives.ranks.push_back(arrival);
  }
  return collectives;
}

Signals with_arrivals(double late_of_third, double on_host) {
  Signals signals = with_steps(healthy_ranks(4));
  signals.jobs.front().collectives = arrivals(late_of_third, on_host);
  return signals;
}

TEST(StragglerByArrivals, IsTheLastToComeAndTheHostIsBlamedWhereItAskedLate) {
  const auto findings = found_by(find_straggler_rank, with_arrivals(0.2, 0.19));

  ASSERT_TRUE(is_one(findings, FindingCode::straggler_rank, 0.19, 0.21));
  EXPECT_THAT(findings.front().ranks, ElementsAre(2));
  EXPECT_EQ(findings.front().rung, 2);
  EXPECT_EQ(evidence_of(findings.front(), "late_on_the_host"), 1);
}

TEST(StragglerByArrivals, NearMissAHostThatAsksLastMakesNobodyWaitAsFarAsIsKnown) {
  Signals signals = with_arrivals(0.34, 0.34);
  signals.jobs.front().collectives->on_device = false;

  EXPECT_THAT(found_by(find_straggler_rank, signals), IsEmpty())
      << "hosts run ahead of their GPUs, each as far as it likes";
}

TEST(StragglerByArrivals, ItsGpuIsBlamedWhereTheHostAskedInTime) {
  const auto findings = found_by(find_straggler_rank, with_arrivals(0.2, 0.01));

  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(evidence_of(findings.front(), "slow_on_the_gpu"), 1);
}

TEST(StragglerByArrivals, NearMissAFewPartsInAHundredAreNothing) {
  EXPECT_THAT(found_by(find_straggler_rank, with_arrivals(0.02, 0.02)), IsEmpty());
}

TEST(StragglerByArrivals, NearMissRanksThatAreLateInTurnAreNoStraggler) {
  Signals signals = with_arrivals(0.1, 0.1);
  for (RankArrival& rank : signals.jobs.front().collectives->ranks) {
    rank.late = 0.1;
    rank.late_share = 0.25;
  }

  EXPECT_THAT(found_by(find_straggler_rank, signals), IsEmpty());
}

TEST(StragglerByArrivals, NearMissOneThatIsLastNowAndThenIsNone) {
  Signals signals = with_arrivals(0.05, 0.05);
  signals.jobs.front().collectives->ranks[2].last = 0.3;

  EXPECT_THAT(found_by(find_straggler_rank, signals), IsEmpty());
}

TEST(ExposedCollectives, AreTheGpusOwnWord) {
  const auto findings = found_by(find_exposed_collectives, recorded_ranks(0.7, 0.2));

  ASSERT_TRUE(is_one(findings, FindingCode::exposed_collectives, 0.19, 0.21));
  EXPECT_EQ(findings.front().rung, 2);
}

TEST(ExposedCollectives, NearMissOneRankThatWaitsIsAnotherFinding) {
  Signals signals = recorded_ranks(0.7, 0.2);
  signals.jobs.front().steps->devices->ranks[2].devices[0].exposed = 0.02;

  EXPECT_THAT(found_by(find_exposed_collectives, signals), IsEmpty());
}

TEST(ExposedCollectives, HiddenOnesAreNoLoss) {
  EXPECT_THAT(found_by(find_exposed_collectives, recorded_ranks(0.95, 0.03)), IsEmpty());
}

Signals transfers_at(double of_link) {
  Signals signals = recorded_ranks(0.6, 0.3);
  CollectiveSignals collectives = arrivals(0.01, 0.01);
  collectives.transfer = 0.3;
  collectives.link_bytes_s = 337e9;
  collectives.speeds = {{"AllReduce", "RING", "SIMPLE", 4, 1, 300, 25e6, 0.5, of_link * 337e9}};
  signals.jobs.front().collectives = collectives;
  return signals;
}

TEST(SlowLink, IsWhatTransfersTookAgainstWhatTheLinksAllow) {
  const auto findings = found_by(find_slow_link, transfers_at(0.1));

  ASSERT_TRUE(is_one(findings, FindingCode::slow_link, 0.25, 0.28));
  EXPECT_EQ(findings.front().rung, 2);
}

TEST(SlowLink, NearMissALinkThatIsUsedWellIsNone) {
  EXPECT_THAT(found_by(find_slow_link, transfers_at(0.8)), IsEmpty());
}

TEST(SlowLink, NearMissSmallCollectivesTellNothingOfTheLink) {
  Signals signals = transfers_at(0.1);
  signals.jobs.front().collectives->speeds.front().bytes = 2e6;

  EXPECT_THAT(found_by(find_slow_link, signals), IsEmpty());
}

TEST(LaunchBound, IsIdleBetweenKernelsWhileTheHostLaunches) {
  const auto findings = found_by(find_launch_bound, launches_slowly(0.4));

  ASSERT_TRUE(is_one(findings, FindingCode::launch_bound, 0.39, 0.41));
  EXPECT_EQ(findings.front().rung, 2);
}

TEST(LaunchBound, CostsAlsoTheLittleThatWouldGoOnBesideTheGpu) {
  Signals signals = launches_slowly(0.8);
  for (RankDevices& rank : signals.jobs.front().steps->devices->ranks) {
    rank.devices.front().computes = 0.14;
    rank.devices.front().idle = 0.86;
    rank.idle[index_of(StepPart::other)] = 0.06;
  }
  EXPECT_TRUE(
      is_one(found_by(find_launch_bound, signals), FindingCode::launch_bound, 0.855, 0.865));

  for (RankDevices& rank : signals.jobs.front().steps->devices->ranks) {
    rank.devices.front().idle = 1;
    rank.idle[index_of(StepPart::data_wait)] = 0.2;
  }
  EXPECT_TRUE(is_one(found_by(find_launch_bound, signals), FindingCode::launch_bound, 0.79, 0.81))
      << "data that are waited for do not come sooner";
}

TEST(LaunchBound, IsASuspicionWhereTheHostWaitsAllTheTime) {
  const auto confidence_with = [](double waits) {
    Signals signals = launches_slowly(0.4);
    PlaceSignals item;
    item.part = StepPart::sync;
    item.on_device = true;
    item.present = 1;
    item.calls_a_step = waits;
    signals.jobs.front().steps->places.push_back(item);
    return found_by(find_launch_bound, signals).front().confidence;
  };
  EXPECT_LT(confidence_with(148), 0.5) << "the gaps are those behind the waits";
  EXPECT_GT(confidence_with(1), 0.5) << "one .item() per step leaves the other gaps unexplained";
}

Signals launches_slowly_in_windows(double idle, double busy_between_them) {
  Signals signals = launches_slowly(idle);
  JobSignals& job = signals.jobs.front();
  job.steps->devices->steps = 40;
  job.steps->count = 4000;
  for (GpuInJob& member : job.members) member.busy = busy_between_them;
  return signals;
}

TEST(LaunchBound, IsNotWhatRecordingItMakesOfAProgram) {
  const auto slowed = launches_slowly_in_windows(0.31, 0.92);
  const auto half = launches_slowly_in_windows(0.6, 0.7);

  EXPECT_THAT(found_by(find_launch_bound, slowed), IsEmpty())
      << "an eager GPT was 31 % idle under the probe, and 90 % busy when nobody looked";
  EXPECT_TRUE(is_one(found_by(find_launch_bound, half), FindingCode::launch_bound, 0.29, 0.31))
      << "the GPUs rest 30 % of the time, whatever the windows say";
  EXPECT_LT(found_by(find_launch_bound, half).front().confidence, 0.7);
}

TEST(LaunchBound, NearMissACounterThatReadsALittleMoreTakesNothingAway) {
  const auto findings = found_by(find_launch_bound, launches_slowly_in_windows(0.84, 0.21));

  EXPECT_TRUE(is_one(findings, FindingCode::launch_bound, 0.83, 0.85));
  EXPECT_GT(findings.front().confidence, 0.9);
}

TEST(LaunchBound, NearMissAFewGapsAreNothing) {
  EXPECT_THAT(found_by(find_launch_bound, launches_slowly(0.06)), IsEmpty());
}

TEST(LaunchBound, NearMissIdleWhileDataIsWaitedForIsNotLaunching) {
  Signals signals = recorded_ranks(0.5, 0);
  for (RankDevices& rank : signals.jobs.front().steps->devices->ranks)
    rank.idle[index_of(StepPart::data_wait)] = 0.5;

  EXPECT_THAT(found_by(find_launch_bound, signals), IsEmpty());
}

TEST(InputStarved, CostsNoMoreThanTheGpuDidNotCompute) {
  Signals signals = recorded_ranks(0.7, 0);
  give_part(*signals.jobs.front().steps, "data_wait", 0.6);

  const auto findings = found_by(find_input_starved, signals);

  ASSERT_TRUE(is_one(findings, FindingCode::input_starved, 0.29, 0.31));
}

Signals recorded_split(double exclusive, double second) {
  Signals signals = with_steps(split_model(2));
  JobSignals& job = signals.jobs.front();
  DeviceSignals devices;
  devices.steps = 200;
  RankDevices of;
  of.devices = {{0, 0.5, 0, 0, 0, 0.5, 400}, {1, second, 0, 0, 0, 1 - second, 400}};
  of.exclusive = exclusive;
  of.hand_overs_a_step = 2;
  devices.ranks = {of};
  job.steps->devices = devices;
  return signals;
}

TEST(TakingTurns, IsProvedByTheGpusOwnRecords) {
  const auto findings = found_by(find_taking_turns, recorded_split(0.98, 0.45));

  ASSERT_TRUE(is_one(findings, FindingCode::taking_turns, 0.4, 0.5));
  EXPECT_EQ(findings.front().rung, 2);
  EXPECT_EQ(evidence_of(findings.front(), "exclusive_by_records"), 0.98);
}

TEST(TakingTurns, NearMissGpusThatComputeAtOnceDoNotWhateverTheirPowerLooksLike) {
  EXPECT_THAT(found_by(find_taking_turns, recorded_split(0.2, 0.48)), IsEmpty());
}

Signals rests_in_own_code(double idle) {
  Signals signals = recorded_ranks(1 - idle, 0);
  for (RankDevices& rank : signals.jobs.front().steps->devices->ranks)
    rank.idle[index_of(StepPart::other)] = idle;
  return signals;
}

TEST(SlowHostCode, IsKnownByTheGpusRecordsWhereNoLinesAre) {
  const auto findings = found_by(find_slow_host_code, rests_in_own_code(0.5));

  ASSERT_TRUE(is_one(findings, FindingCode::slow_host_code, 0.49, 0.51));
  EXPECT_EQ(findings.front().rung, 2);
}

TEST(SlowHostCode, NearMissASmallRestInOwnCodeIsNotSaid) {
  EXPECT_THAT(found_by(find_slow_host_code, rests_in_own_code(0.06)), IsEmpty());
}

TEST(HostSync, CostsOnlyTheRestThatNoOtherWorkOfTheHostExplains) {
  Signals signals = rests_in_own_code(0.5);
  JobSignals& job = signals.jobs.front();
  for (RankSteps& rank : job.steps->ranks) rank.share[index_of(StepPart::sync)] = 0.2;
  job.steps->share[index_of(StepPart::sync)] = 0.2;
  job.steps->present[index_of(StepPart::sync)] = 1;

  EXPECT_THAT(found_by(find_host_sync_every_step, signals), IsEmpty())
      << "the GPU rests while a line of the user's own sleeps";

  for (RankDevices& rank : job.steps->devices->ranks) rank.idle[index_of(StepPart::other)] = 0.35;
  EXPECT_TRUE(is_one(found_by(find_host_sync_every_step, signals),
                     FindingCode::host_sync_every_step, 0.14, 0.16));
}

TEST(EvaluationStall, IsEvaluationOfAllRanksThatLeavesTheirGpusIdle) {
  Signals signals = recorded_ranks(0.5, 0);
  StepSignals& steps = *signals.jobs.front().steps;
  steps.share[index_of(StepPart::evaluation)] = 0.5;
  for (RankSteps& rank : steps.ranks) rank.share[index_of(StepPart::evaluation)] = 0.5;

  EXPECT_THAT(found_by(find_evaluation_stall, signals), IsEmpty()) << "the GPUs work in it";

  for (RankDevices& rank : steps.devices->ranks) rank.idle[index_of(StepPart::evaluation)] = 0.4;
  EXPECT_TRUE(
      is_one(found_by(find_evaluation_stall, signals), FindingCode::evaluation_stall, 0.39, 0.41));
}

CommunicatorSignals counted(double stuck_ms) {
  CommunicatorSignals communicators;
  communicators.nccl_version = "2.28.9";
  communicators.looks = 8;
  communicators.communicators = 1;
  communicators.largest = 4;
  communicators.processes = 4;
  communicators.begun = 40;
  if (stuck_ms > 0)
    communicators.stuck = {{"0xab", 4, "AllReduce", 12, {3}, 11, {}, {103}, {3}, stuck_ms}};
  return communicators;
}

TEST(StuckCollective, NamesTheRankThatNcclItselfMisses) {
  Signals signals = healthy_ranks(4);
  signals.jobs.front().communicators = counted(24'000);

  const auto findings = found_by(find_stuck_collective, signals);

  ASSERT_TRUE(is_one(findings, FindingCode::stuck_collective, 0.9, 1));
  EXPECT_THAT(findings.front().ranks, ElementsAre(3));
  EXPECT_THAT(findings.front().gpus, ElementsAre(3));
  EXPECT_THAT(findings.front().evidence.back().signal,
              HasSubstr("rank 3 has begun 11 AllReduce, the others 12"));
}

TEST(StuckCollective, ARankThatOnlyDoesNotAnswerIsASuspicion) {
  Signals signals = healthy_ranks(4);
  CommunicatorSignals communicators = counted(0);
  communicators.stuck = {{"0xab", 4, "", 0, {}, 0, {3}, {103}, {}, 30'000}};
  signals.jobs.front().communicators = communicators;

  const auto findings = found_by(find_stuck_collective, signals);

  ASSERT_EQ(findings.size(), 1U);
  EXPECT_LT(findings.front().confidence, 0.5);
}

TEST(StuckCollective, IsSuspectedWhileItMayStillBeASave) {
  Signals signals = healthy_ranks(4);
  signals.jobs.front().communicators = counted(14'000);

  const auto findings = found_by(find_stuck_collective, signals);

  ASSERT_EQ(findings.size(), 1U);
  EXPECT_FALSE(is_stood_behind(findings.front()));
}

TEST(StuckCollective, NearMissARankThatSavesForSomeSecondsIsNotMissed) {
  Signals writes = healthy_ranks(4);
  writes.jobs.front().communicators = counted(14'000);
  writes.jobs.front().written_while_hollow = 2e9;
  Signals short_wait = healthy_ranks(4);
  short_wait.jobs.front().communicators = counted(4'000);

  EXPECT_THAT(found_by(find_stuck_collective, writes), IsEmpty());
  EXPECT_THAT(found_by(find_stuck_collective, short_wait), IsEmpty());
}

TEST(Pattern, OneCommunicatorOverAllProcessesProvesRanks) {
  Signals signals = seen_by_busy_alone(healthy_ranks(4));
  signals.jobs.front().communicators = counted(0);

  const JobVerdict verdict = judge_patterns(signals).front();

  EXPECT_EQ(verdict.verdict.pattern, Pattern::in_step);
  EXPECT_GE(verdict.verdict.confidence, 0.8);
}

TEST(Pattern, NearMissAProcessThatHoldsAllRanksProvesNone) {
  Signals signals = split_model(2);
  CommunicatorSignals communicators = counted(0);
  communicators.processes = 1;
  communicators.largest = 2;
  signals.jobs.front().communicators = communicators;

  EXPECT_EQ(judge_patterns(signals).front().verdict.pattern, Pattern::taking_turns);
}

}  // namespace
}  // namespace lockstep
