// Signals of the second rung: collectives as ranks come to them, NCCL's own count, the GPUs' own
// records.
#include <gtest/gtest.h>

#include "signals/collective_arrivals.hpp"
#include "signals/communicators.hpp"
#include "signals/device_times.hpp"
#include "signals/step_times.hpp"

namespace lockstep {
namespace {

// Two ranks, a hundred all-reduces of 64 MiB, 10 ms apart; rank 1 asks late by `host_ms` and its
// GPU is behind by `gpu_ms`.
std::vector<CollectiveCall> run_of(double host_ms, double gpu_ms, double transfer_ms = 1,
                                   bool on_device = true) {
  std::vector<CollectiveCall> calls;
  for (int i = 0; i < 100; ++i)
    for (int rank = 0; rank < 2; ++rank) {
      CollectiveCall call;
      call.rank = call.place = rank;
      call.communicator = 5;
      call.sequence = static_cast<std::uint64_t>(i);
      call.operation = "AllReduce";
      call.size = 2;
      call.nodes = 1;
      call.bytes = 64 << 20;
      call.called_ms = 10.0 * i + (rank == 1 ? host_ms : 0);
      call.queued_ms = call.called_ms + 0.01;
      const double begin = 10.0 * i + 2 + (rank == 1 ? host_ms + gpu_ms : 0);
      if (on_device) {
        call.begin_ms = begin;
        call.end_ms = 10.0 * i + 2 + host_ms + gpu_ms + transfer_ms;
      }
      calls.push_back(call);
    }
  return calls;
}

TEST(CollectiveSignals, TellHostLateFromGpuSlow) {
  const auto host = collective_signals(run_of(2, 0));
  const auto gpu = collective_signals(run_of(0, 3));

  ASSERT_TRUE(host && gpu);
  EXPECT_NEAR(host->ranks[1].late, 0.2, 0.01);
  EXPECT_NEAR(host->ranks[1].late_on_host, 0.2, 0.01);
  EXPECT_NEAR(host->ranks[1].late_on_gpu, 0, 0.001);
  EXPECT_NEAR(gpu->ranks[1].late_on_gpu, 0.3, 0.01);
  EXPECT_NEAR(gpu->ranks[1].late_on_host, 0, 0.001);
  EXPECT_NEAR(gpu->ranks[1].last, 1, 0.001);
  EXPECT_NEAR(gpu->ranks[0].late, 0, 0.001);
}

TEST(CollectiveSignals, BusSpeedIsOfTheShortestWhichWaitedForNobody) {
  const auto signals = collective_signals(run_of(0, 3, 2));

  ASSERT_EQ(signals->speeds.size(), 1U);
  EXPECT_NEAR(signals->speeds[0].transfer_ms, 2, 1e-6);
  EXPECT_NEAR(signals->speeds[0].bus_bytes_s, (64 << 20) / 2e-3, 1e6)
      << "two ranks: the factor of an all-reduce is 1";
  EXPECT_NEAR(signals->transfer, 0.2, 0.01);
}

TEST(CollectiveSignals, WithoutTheGpusTimesItIsKnownWhoAsksLastButNotWhoWaits) {
  const auto signals = collective_signals(run_of(2, 0, 1, false));

  EXPECT_FALSE(signals->on_device);
  EXPECT_TRUE(signals->speeds.empty());
  EXPECT_NEAR(signals->ranks[1].last, 1, 0.001);
  EXPECT_EQ(signals->ranks[1].late, 0);
}

TEST(CollectiveSignals, AWaitOfSeveralBucketsIsOneWait) {
  std::vector<CollectiveCall> calls = run_of(6, 0);
  std::vector<CollectiveCall> second = calls;
  for (CollectiveCall& call : second) {
    call.communicator = 6;
    *call.begin_ms += 0.5;
    *call.end_ms += 0.5;
  }
  calls.insert(calls.end(), second.begin(), second.end());

  EXPECT_NEAR(collective_signals(calls)->ranks[1].late, 0.65, 0.01) << "6.5 of 10 ms, not 12";
}

TEST(CollectiveSignals, AHostThatIsFarAheadOfItsGpuIsNotWhyItIsLate) {
  std::vector<CollectiveCall> calls = run_of(2, 0);
  for (CollectiveCall& call : calls) call.called_ms = call.queued_ms -= 100;

  const auto signals = collective_signals(calls);

  EXPECT_NEAR(signals->ranks[1].late, 0.2, 0.02);
  EXPECT_EQ(signals->ranks[1].late_on_host, 0);
}

TEST(CollectiveSignals, GpuTimesOfSomeStandForAll) {
  std::vector<CollectiveCall> calls = run_of(2, 0);
  for (CollectiveCall& call : calls)
    if (call.sequence % 4 != 0) call.begin_ms = call.end_ms = std::nullopt;

  EXPECT_NEAR(collective_signals(calls)->ranks[1].late, 0.2, 0.02);
}

TEST(CollectiveSignals, AStallOfSecondsIsNoLateness) {
  auto calls = run_of(0.1, 0);
  for (CollectiveCall& call : calls)
    if (call.rank == 1 && call.sequence == 50) *call.begin_ms += 5000, *call.end_ms += 5000;

  EXPECT_LT(collective_signals(calls)->ranks[1].late, 0.02);
}

TEST(CollectiveSignals, ACollectiveThatARankDidNotTellIsNotMatched) {
  auto calls = run_of(0, 0);
  for (CollectiveCall& call : calls) call.size = 3;

  EXPECT_EQ(collective_signals(calls)->matched, 0U);
}

TEST(CollectiveSignals, FactorsAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor("AllReduce", 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor("ReduceScatter", 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor("Broadcast", 4), 1);
  EXPECT_DOUBLE_EQ(bus_factor("AllReduce", 1), 0);
}

TEST(CollectiveSignals, NothingToldIsNothing) { EXPECT_FALSE(collective_signals({})); }

CensusAt look(double t_ms, std::vector<std::int64_t> counts, std::vector<int> silent = {}) {
  Communicator communicator{"0xab", static_cast<int>(counts.size() + silent.size()), {}};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    CommunicatorRank rank;
    rank.rank = static_cast<int>(i);
    rank.pid = 100 + rank.rank;
    rank.gpu = rank.rank;
    rank.counts["AllReduce"] = counts[i];
    communicator.ranks.push_back(rank);
  }
  for (const int number : silent) {
    CommunicatorRank rank;
    rank.rank = number;
    rank.pid = 100 + number;
    rank.answers = false;
    communicator.ranks.push_back(rank);
  }
  return {t_ms, {"2.28.9", {communicator}}};
}

TEST(CommunicatorSignals, CollectivesThatAreBegunProveRanksThatWorkTogether) {
  const auto signals = communicator_signals({look(0, {10, 10}), look(2000, {60, 61})}, {});

  ASSERT_TRUE(signals);
  EXPECT_EQ(signals->largest, 2);
  EXPECT_EQ(signals->processes, 2U);
  EXPECT_EQ(signals->begun, 50);
  EXPECT_TRUE(signals->stuck.empty()) << "one apart, and it goes on";
}

TEST(CommunicatorSignals, NameTheRankThatDoesNotCome) {
  const auto signals = communicator_signals(
      {look(0, {10, 9}), look(5000, {12, 11}), look(10'000, {12, 11}), look(22'000, {12, 11})}, {});

  ASSERT_EQ(signals->stuck.size(), 1U);
  EXPECT_EQ(signals->stuck[0].behind, std::vector<int>{1});
  EXPECT_EQ(signals->stuck[0].most, 12);
  EXPECT_NEAR(signals->stuck[0].for_ms, 17'000, 1);
}

TEST(CommunicatorSignals, ARankThatCannotBeReachedIsNamedToo) {
  const auto signals = communicator_signals({look(0, {5, 5}, {2}), look(12'000, {5, 5}, {2})}, {});

  ASSERT_EQ(signals->stuck.size(), 1U);
  EXPECT_EQ(signals->stuck[0].silent, std::vector<int>{2});
}

TEST(CommunicatorSignals, ThatAllAreEquallyFarIsNobodysFault) {
  EXPECT_TRUE(communicator_signals({look(0, {5, 5}), look(20'000, {5, 5})}, {})->stuck.empty());
}

TEST(CommunicatorSignals, OtherJobsCommunicatorsAreNotThisOnes) {
  EXPECT_FALSE(communicator_signals({look(0, {5, 5})}, {999}));
}

StepAt step_with(double computes_ms, double exposed_ms) {
  StepAt entry;
  entry.step.duration_ms = 10;
  entry.step.on_devices = StepOnDevices();
  entry.step.on_devices->devices = {
      {0, computes_ms, exposed_ms + 1, exposed_ms, 0.5, 10 - computes_ms - exposed_ms - 0.5, 40}};
  entry.step.on_devices->idle_ms[index_of(StepPart::data_wait)] = 2;
  return entry;
}

TEST(DeviceSignals, AreSharesOfTheStepsTime) {
  const auto signals = device_signals({step_with(6, 1), step_with(4, 2)});

  ASSERT_TRUE(signals);
  const DeviceUse& use = signals->ranks[0].devices[0];
  EXPECT_NEAR(use.computes, 0.5, 1e-9);
  EXPECT_NEAR(use.exposed, 0.15, 1e-9);
  EXPECT_NEAR(use.hidden, 0.1, 1e-9);
  EXPECT_NEAR(use.computes + use.exposed + use.copies + use.idle, 1, 1e-9);
  EXPECT_NEAR(use.kernels_a_step, 40, 1e-9);
  EXPECT_NEAR(signals->ranks[0].idle[index_of(StepPart::data_wait)], 0.2, 1e-9);
}

// Forty steps of 10 ms, seven of them work; eight have records. Two others save for 390 ms.
std::vector<StepAt> saves_between_windows(StepPart part) {
  std::vector<StepAt> steps;
  for (int i = 0; i < 40; ++i) {
    StepAt entry;
    entry.step.duration_ms = 10;
    entry.step.spans_ms[index_of(StepPart::other)] = 1;
    if (i % 20 == 19) {
      entry.step.duration_ms = 400;
      entry.step.spans_ms[index_of(part)] = 390;
    }
    if (i >= 4 && i < 12) {
      entry.step.on_devices = StepOnDevices();
      entry.step.on_devices->devices = {{.device = 0, .computes_ms = 7}};
      entry.step.on_devices->idle_ms[index_of(StepPart::forward)] = 3;
    }
    steps.push_back(entry);
  }
  return steps;
}

TEST(DeviceSignals, ASaveBetweenTheWindowsIsCounted) {
  const auto signals = device_signals(saves_between_windows(StepPart::checkpoint));

  const RankDevices& rank = signals->ranks.front();
  EXPECT_NEAR(rank.idle[index_of(StepPart::checkpoint)], 780.0 / 1180, 0.01);
  EXPECT_NEAR(rank.devices.front().computes, 280.0 / 1180, 0.01);
  EXPECT_NEAR(rank.devices.front().idle, 900.0 / 1180, 0.01);
}

TEST(DeviceSignals, NearMissALongStepInWhichTheGpuMayWorkIsNoIdleTime) {
  const auto signals = device_signals(saves_between_windows(StepPart::evaluation));

  EXPECT_NEAR(signals->ranks.front().devices.front().computes, 0.7, 0.01);
}

TEST(DeviceSignals, EvaluationBetweenTheWindowsIsToldByHowBusyTheGpuWas) {
  auto steps = device_signals(saves_between_windows(StepPart::evaluation));
  RankDevices idle = steps->ranks.front();
  RankDevices busy = idle;

  weigh_in_evaluation(0.5, 0.4, idle);  // 0.35 of it in the other half
  weigh_in_evaluation(0.5, 0.85, busy);

  EXPECT_NEAR(idle.idle[index_of(StepPart::evaluation)], 0.45, 1e-6);
  EXPECT_NEAR(idle.devices.front().computes, 0.4, 1e-6);
  EXPECT_NEAR(idle.idle[index_of(StepPart::forward)], 0.15, 1e-6);
  EXPECT_NEAR(busy.idle[index_of(StepPart::evaluation)], 0, 1e-6);
}

TEST(DeviceSignals, WorkThatIsLeftWhenTheHostBeginsToWaitIsWork) {
  RankDevices rank;
  rank.devices = {{.device = 0, .computes = 0.2, .idle = 0.8}};
  rank.idle[index_of(StepPart::data_wait)] = 0.75;
  RankDevices launches = rank;
  std::swap(launches.idle[index_of(StepPart::data_wait)],
            launches.idle[index_of(StepPart::forward)]);

  weigh_in_work_behind_waits(0.26, rank);
  weigh_in_work_behind_waits(0.26, launches);

  EXPECT_NEAR(rank.idle[index_of(StepPart::data_wait)], 0.69, 1e-9);
  EXPECT_NEAR(rank.main()->computes, 0.26, 1e-9);
  EXPECT_NEAR(launches.main()->computes, 0.2, 1e-9) << "a reading is coarser than the records";
}

TEST(DeviceSignals, WhatTheProbeMadeLongerIsTakenOut) {
  std::vector<StepAt> steps;
  for (int i = 0; i < 20; ++i) {
    StepAt entry;
    entry.step.duration_ms = 10;
    if (i < 8) {  // the probe was on: launching took 2 ms more
      entry.step.duration_ms = 12;
      entry.step.on_devices = StepOnDevices();
      entry.step.on_devices->devices = {{.device = 0, .computes_ms = 7}};
      entry.step.on_devices->idle_ms[index_of(StepPart::forward)] = 4;
      entry.step.on_devices->idle_ms[index_of(StepPart::data_wait)] = 1;
      entry.step.on_devices->launch_gaps_ms = 3;
    }
    steps.push_back(entry);
  }

  const auto signals = device_signals(steps);

  ASSERT_TRUE(signals);
  const RankDevices& rank = signals->ranks.front();
  EXPECT_NEAR(rank.slowed_by_probe, 2.0 / 12, 1e-9);
  EXPECT_NEAR(rank.main()->computes, 0.7, 1e-9) << "of the step as it is without the probe";
  EXPECT_NEAR(rank.idle[index_of(StepPart::forward)], 0.2, 1e-9);
  EXPECT_NEAR(rank.idle[index_of(StepPart::data_wait)], 0.1, 1e-9) << "data are not the probe's";
  EXPECT_NEAR(rank.launch_gaps, 0.1, 1e-9);
}

// The first eight undisturbed, of which some belong to the warm-up; eight with records; then steps
// beside CUPTI that take `behind_ms`.
std::vector<StepAt> where_cupti_stays(double behind_ms, double batch_ms = 0) {
  std::vector<StepAt> steps;
  for (int i = 1; i <= 60; ++i) {
    StepAt entry;
    entry.step.index = i;
    entry.step.duration_ms = i <= 3 ? 500 : i <= 16 ? 10 + batch_ms + 0.1 * (i % 4) : behind_ms;
    if (i <= 16) entry.step.spans_ms[index_of(StepPart::data_wait)] = batch_ms;
    entry.step.beside_cupti = i > 16;
    if (i > 16 && i <= 24) {
      entry.step.duration_ms = 14;
      entry.step.on_devices = StepOnDevices();
      entry.step.on_devices->devices = {{.device = 0, .computes_ms = 5}};
      entry.step.on_devices->idle_ms[index_of(StepPart::forward)] = 9;
    }
    steps.push_back(entry);
  }
  return steps;
}

std::vector<StepAt> behind_the_warm_up(const std::vector<StepAt>& steps) {
  return {steps.begin() + 16, steps.end()};
}

TEST(DeviceSignals, WhereCuptiStaysTheFirstStepsTellHowLongOneTakesWithout) {
  const std::vector<StepAt> steps = where_cupti_stays(12);

  const auto signals = device_signals(behind_the_warm_up(steps), steps);

  ASSERT_TRUE(signals);
  const RankDevices& rank = signals->ranks.front();
  EXPECT_NEAR(rank.slowed_by_probe, 4.0 / 14, 0.02);
  EXPECT_NEAR(rank.main()->computes, 0.5, 0.02) << "of a step of 10 ms";
  EXPECT_NEAR(rank.slowed_for_good, 0.2, 0.02);
}

TEST(DeviceSignals, FirstStepsAreComparedWithoutTheirBatch) {
  const std::vector<StepAt> steps = where_cupti_stays(12, 40);

  EXPECT_NEAR(device_signals(behind_the_warm_up(steps), steps)->ranks.front().slowed_for_good, 0.2,
              0.02);
}

TEST(DeviceSignals, WhatStepsSpreadByIsNotCuptis) {
  const std::vector<StepAt> steps = where_cupti_stays(10.2);

  EXPECT_EQ(device_signals(behind_the_warm_up(steps), steps)->ranks.front().slowed_for_good, 0);
}

TEST(DeviceSignals, WhereCuptiLeftInTheEndNothingIsSlowedForGood) {
  std::vector<StepAt> steps = where_cupti_stays(12);
  for (std::size_t i = 40; i < steps.size(); ++i) {
    steps[i].step.beside_cupti = false;
    steps[i].step.duration_ms = 10;
  }

  EXPECT_EQ(device_signals(behind_the_warm_up(steps), steps)->ranks.front().slowed_for_good, 0);
}

// `count` steps; those behind `begins` have records, seven each.
std::vector<StepAt> looked_into(int count, std::initializer_list<int> begins) {
  std::vector<StepAt> steps;
  for (int i = 1; i <= count; ++i) {
    StepAt entry;
    entry.step.index = i;
    entry.step.duration_ms = 10;
    entry.step.detail = std::make_shared<StepDetail>();
    for (const int begin : begins)
      if (i > begin && i <= begin + 7) {
        entry.step.on_devices = StepOnDevices();
        entry.step.on_devices->devices = {{.device = 0, .computes_ms = begin * 0.1}};
      }
    steps.push_back(entry);
  }
  return steps;
}

TEST(WarmUp, LeavesTheLastWindowWhereAllLieInIt) {
  const auto both_within = step_signals(looked_into(198, {8, 32}), WarmUp::leave_out);

  ASSERT_TRUE(both_within->devices);
  EXPECT_EQ(both_within->devices->steps, 7);
  EXPECT_NEAR(both_within->devices->ranks.front().main()->computes, 0.32, 1e-9);
}

TEST(WarmUp, IsLeftOutWhereALaterWindowTellsEnough) {
  const auto one_behind = step_signals(looked_into(198, {8, 32, 90}), WarmUp::leave_out);

  EXPECT_EQ(one_behind->devices->steps, 7);
  EXPECT_NEAR(one_behind->devices->ranks.front().main()->computes, 0.9, 1e-9);
}

TEST(WarmUp, TheVeryFirstStepsNeverCount) {
  EXPECT_FALSE(step_signals(looked_into(7, {0}), WarmUp::leave_out)->devices->steps > 4);
}

// Six batches at once, and then a wait for all six workers.
std::vector<StepAt> in_bursts(int count, int first_long) {
  std::vector<StepAt> steps;
  for (int i = 1; i <= count; ++i) {
    StepAt entry;
    entry.step.index = i;
    const bool waits = i % 6 == first_long;
    entry.step.duration_ms = waits ? 760 : 40;
    entry.step.spans_ms[index_of(StepPart::data_wait)] = waits ? 720 : 0;
    steps.push_back(entry);
  }
  return steps;
}

TEST(StepSignals, AreOfWholeBurstsWhereverTheyWereCut) {
  constexpr double kTrue = 720.0 / 960;
  for (const int first_long : {0, 1, 3, 5})
    EXPECT_NEAR(step_signals(in_bursts(40, first_long))->share[index_of(StepPart::data_wait)],
                kTrue, 1e-9);
}

TEST(StepSignals, NearMissThreeLongStepsAreNoPeriod) {
  EXPECT_EQ(step_signals(in_bursts(18, 2))->count, 18);
}

TEST(DeviceSignals, StepsWithoutRecordsGiveNone) { EXPECT_FALSE(device_signals({StepAt()})); }

}  // namespace
}  // namespace lockstep
