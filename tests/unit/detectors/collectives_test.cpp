// C401 to C410: ranks that wait for each other, or for their bytes.
#include "unit/detectors/finding_checks.hpp"

namespace lockstep {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Rank 2 computes all the time; the others spin for two fifths of theirs.
Signals third_rank_is_slow() {
  Signals signals = healthy_ranks(4);
  for (const int gpu : {0, 1, 3}) load_gpu(signals, gpu, 0.98, 0.42);
  load_gpu(signals, 2, 0.97, 0.03);
  return signals;
}

// All ranks spin equally long in every step.
Signals all_spin(int gpus, double hollow) {
  Signals signals = healthy_ranks(gpus);
  for (int gpu = 0; gpu < gpus; ++gpu) load_gpu(signals, gpu, 0.98, hollow);
  return signals;
}

// Gradients go over PCIe both ways, none over NVLink, and peer-to-peer is switched off.
Signals detour_through_the_host() {
  Signals signals = all_spin(2, 0.25);
  for (GpuSignals& gpu : signals.gpus) {
    gpu.pcie_rx_bytes_s = gpu.pcie_tx_bytes_s = 6e8;
    gpu.nvlink_bytes_s = 0;
  }
  set_environment(signals, "NCCL_P2P_DISABLE", "1");
  return signals;
}

// For the last 14 s three ranks spin for the fourth, which is gone.
Signals waits_for_a_rank_that_is_gone() {
  Signals signals = healthy_ranks(4);
  for (const int gpu : {0, 1, 2}) load_gpu(signals, gpu, 0.99, 0.6);
  load_gpu(signals, 3, 0.2, 0.05);
  signals.jobs.front().longest_hollow_ms = 14'000;
  signals.jobs.front().longest_hollow_until_ms = 30'000;
  return signals;
}

Signals accumulates(double micro_steps_with_collective) {
  Signals signals = with_steps(healthy_ranks(4));
  StepSignals& steps = *signals.jobs.front().steps;
  give_part(steps, "collective_exposed", 0.2);
  steps.steps_without_optimizer = 0.5;
  steps.micro_steps_with_collective = micro_steps_with_collective;
  return signals;
}

TEST(StragglerRank, IsTheOneThatNeverSpins) {
  const auto findings = found_by(find_straggler_rank, third_rank_is_slow());

  ASSERT_TRUE(is_one(findings, FindingCode::straggler_rank, 0.3, 0.45));
  EXPECT_TRUE(is_stood_behind(findings.front()));
  EXPECT_THAT(findings.front().gpus, ElementsAre(2));
  EXPECT_THAT(findings.front().ranks, ElementsAre(2));
  EXPECT_THAT(findings.front().pids, ElementsAre(4244));
  EXPECT_EQ(evidence_of(findings.front(), "slow_on_the_gpu"), 1);
}

TEST(StragglerRank, IsLateOnTheHostWhereItsGpuIsEmpty) {
  Signals signals = third_rank_is_slow();
  load_gpu(signals, 2, 0.6, 0.03);

  const auto findings = found_by(find_straggler_rank, signals);

  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings.front().ranks, ElementsAre(2));
  EXPECT_EQ(evidence_of(findings.front(), "late_on_the_host"), 1);
}

TEST(StragglerRank, ShowsInUtilizationAloneWhereTheOthersNeverRest) {
  Signals signals = seen_by_busy_alone(healthy_ranks(4));
  signals.jobs.front().members[3].busy = 0.7;

  const auto findings = found_by(find_straggler_rank, signals);

  ASSERT_TRUE(is_one(findings, FindingCode::straggler_rank, 0.2, 0.3));
  EXPECT_THAT(findings.front().ranks, ElementsAre(3));
}

TEST(StragglerRank, WaitsLeastByStepMarks) {
  Signals signals = with_steps(healthy_ranks(4));
  give_part(*signals.jobs.front().steps, "collective_exposed", 0.3);
  give_part_to_rank(*signals.jobs.front().steps, 1, "collective_exposed", 0.02);
  signals.jobs.front().steps->ranks[1].last_to_arrive = 0.95;
  Signals by_turns = signals;
  by_turns.jobs.front().steps->ranks[1].last_to_arrive = 0.3;

  const auto findings = found_by(find_straggler_rank, signals);

  EXPECT_THAT(found_by(find_straggler_rank, by_turns), IsEmpty())
      << "the lateness goes from rank to rank";
  ASSERT_TRUE(is_one(findings, FindingCode::straggler_rank, 0.25, 0.3));
  EXPECT_THAT(findings.front().ranks, ElementsAre(1));
  EXPECT_THAT(findings.front().gpus, ElementsAre(1));
  EXPECT_THAT(findings.front().pids, ElementsAre(4243));
}

TEST(StragglerRank, IsNobodyWhereAllSpinAlike) {
  Signals nearly = all_spin(4, 0.42);
  load_gpu(nearly, 1, 0.98, 0.31);

  EXPECT_THAT(found_by(find_straggler_rank, all_spin(4, 0.42)), IsEmpty());
  EXPECT_THAT(found_by(find_straggler_rank, nearly), IsEmpty())
      << "0.11 of the time is under the line";
}

TEST(StragglerRank, IsNamedJustOverTheLine) {
  Signals outside = all_spin(4, 0.42);
  load_gpu(outside, 1, 0.98, 0.27);
  Signals marked = with_steps(healthy_ranks(4));
  give_part(*marked.jobs.front().steps, "collective_exposed", 0.12);
  give_part_to_rank(*marked.jobs.front().steps, 2, "collective_exposed", 0.02);
  marked.jobs.front().steps->ranks[2].last_to_arrive = 0.9;
  Signals under = marked;
  give_part_to_rank(*under.jobs.front().steps, 2, "collective_exposed", 0.06);

  EXPECT_TRUE(
      is_one(found_by(find_straggler_rank, outside), FindingCode::straggler_rank, 0.12, 0.18));
  EXPECT_TRUE(
      is_one(found_by(find_straggler_rank, marked), FindingCode::straggler_rank, 0.08, 0.12));
  EXPECT_THAT(found_by(find_straggler_rank, under), IsEmpty());
}

TEST(StragglerRank, IsNotARareStallAndNotAStuckCollective) {
  Signals stalls = third_rank_is_slow();
  stall_every(stalls, 10'000, {.working_gpus = 1, .spinning_gpus = 3, .workers = {2}}, 3500);
  Signals stuck = third_rank_is_slow();
  stuck.jobs.front().longest_hollow_ms = 12'000;

  EXPECT_THAT(found_by(find_straggler_rank, stalls), IsEmpty()) << "the waiting is in the stalls";
  EXPECT_THAT(found_by(find_straggler_rank, stuck), IsEmpty()) << "it does not end";
}

TEST(StragglerRank, IsNotSaidByUtilizationWhereTheOthersRestToo) {
  Signals signals = seen_by_busy_alone(healthy_ranks(4));
  for (GpuInJob& member : signals.jobs.front().members) member.busy = 0.85;
  signals.jobs.front().members[3].busy = 0.6;

  EXPECT_THAT(found_by(find_straggler_rank, signals), IsEmpty());
}

TEST(StragglerRank, IsNotSaidOfServersOrWhereNothingIsClear) {
  Signals serving = third_rank_is_slow();
  serving.jobs.front().serves = true;
  Signals few_readings = third_rank_is_slow();
  few_readings.ticks = 3;

  EXPECT_THAT(found_by(find_straggler_rank, serving), IsEmpty());
  EXPECT_THAT(found_by(find_straggler_rank, few_readings), IsEmpty());
}

TEST(StragglerRank, IsNotSaidWhereNeitherBusyNorWorkIsKnown) {
  Signals signals = seen_by_busy_alone(healthy_ranks(4));
  signals.jobs.front().members[3].busy.reset();

  EXPECT_THAT(found_by(find_straggler_rank, signals), IsEmpty());
}

TEST(ExposedCollectives, AreWhatEvenTheLastRankSpendsThere) {
  Signals signals = with_steps(healthy_ranks(4));
  give_part(*signals.jobs.front().steps, "collective_exposed", 0.35);
  give_part_to_rank(*signals.jobs.front().steps, 2, "collective_exposed", 0.12);

  const auto findings = found_by(find_exposed_collectives, signals);

  ASSERT_TRUE(is_one(findings, FindingCode::exposed_collectives, 0.12, 0.12));
  EXPECT_TRUE(is_stood_behind(findings.front()));
  EXPECT_THAT(findings.front().gpus, ElementsAre(0, 1, 2, 3));
}

TEST(ExposedCollectives, AreNotSaidWhereOneRankIsLateOrLittleIsExposed) {
  Signals late = with_steps(healthy_ranks(4));
  give_part(*late.jobs.front().steps, "collective_exposed", 0.35);
  give_part_to_rank(*late.jobs.front().steps, 2, "collective_exposed", 0.02);
  Signals little = with_steps(healthy_ranks(4));
  give_part(*little.jobs.front().steps, "collective_exposed", 0.08);

  EXPECT_THAT(found_by(find_exposed_collectives, late), IsEmpty())
      << "that is waiting, not transfer";
  EXPECT_THAT(found_by(find_exposed_collectives, little), IsEmpty());
}

TEST(ExposedCollectives, AreSuspectedOnlyFromOutside) {
  const auto findings = found_by(find_exposed_collectives, all_spin(4, 0.42));

  ASSERT_TRUE(is_one(findings, FindingCode::exposed_collectives, 0.35, 0.45));
  EXPECT_FALSE(is_stood_behind(findings.front()));
}

TEST(ExposedCollectives, AreNotSuspectedOfOneLateRankLittleSpinningOrNoPower) {
  EXPECT_THAT(found_by(find_exposed_collectives, third_rank_is_slow()), IsEmpty());
  EXPECT_THAT(found_by(find_exposed_collectives, all_spin(4, 0.28)), IsEmpty());
  EXPECT_THAT(found_by(find_exposed_collectives, seen_by_busy_alone(all_spin(4, 0.42))), IsEmpty());
}

TEST(SyncEveryMicroStep, IsFoundWhereMicroStepsHaveACollective) {
  const auto findings = found_by(find_sync_every_micro_step, accumulates(1.0));

  ASSERT_TRUE(is_one(findings, FindingCode::sync_every_micro_step, 0.08, 0.12));
  EXPECT_TRUE(is_stood_behind(findings.front()));
  EXPECT_THAT(findings.front().ranks, ElementsAre(0, 1, 2, 3));
}

TEST(SyncEveryMicroStep, IsNotSaidWithNoSyncWithoutAccumulationOrOfOneRank) {
  Signals no_accumulation = accumulates(1.0);
  no_accumulation.jobs.front().steps->steps_without_optimizer = 0.3;
  Signals one_rank = accumulates(1.0);
  one_rank.jobs.front().steps->ranks.resize(1);
  Signals no_marks = accumulates(1.0);
  no_marks.jobs.front().steps.reset();

  EXPECT_THAT(found_by(find_sync_every_micro_step, accumulates(0.6)), IsEmpty());
  EXPECT_THAT(found_by(find_sync_every_micro_step, no_accumulation), IsEmpty());
  EXPECT_THAT(found_by(find_sync_every_micro_step, one_rank), IsEmpty());
  EXPECT_THAT(found_by(find_sync_every_micro_step, no_marks), IsEmpty());
}

TEST(SlowLink, IsFoundWherePeerToPeerIsSwitchedOff) {
  const auto findings = found_by(find_slow_link, detour_through_the_host());

  ASSERT_TRUE(is_one(findings, FindingCode::slow_link, 0.2, 0.3));
  EXPECT_TRUE(is_stood_behind(findings.front()));
  EXPECT_THAT(findings.front().gpus, ElementsAre(0, 1));
}

TEST(SlowLink, IsNotSaidWhereBytesGoOverNvlinkOrOneWay) {
  Signals nvlink = detour_through_the_host();
  for (GpuSignals& gpu : nvlink.gpus) gpu.nvlink_bytes_s = 60e9;
  Signals input = detour_through_the_host();
  for (GpuSignals& gpu : input.gpus) gpu.pcie_tx_bytes_s = 4e8;
  Signals hides_it = detour_through_the_host();
  for (const int gpu : {0, 1}) load_gpu(hides_it, gpu, 0.98, 0.18);

  EXPECT_THAT(found_by(find_slow_link, hides_it), IsEmpty()) << "nobody waits for these bytes";
  EXPECT_THAT(found_by(find_slow_link, nvlink), IsEmpty());
  EXPECT_THAT(found_by(find_slow_link, input), IsEmpty()) << "batches come in and nothing goes out";
}

TEST(SlowLink, IsNotSaidOfALinkAsFastAsItGets) {
  // PCIe cards without NVLink whose peer-to-peer works and is on.
  Signals signals = detour_through_the_host();
  set_environment(signals, "NCCL_P2P_DISABLE", "0");
  for (GpuSignals& gpu : signals.gpus) gpu.nvlink_bytes_s.reset();

  EXPECT_THAT(found_by(find_slow_link, signals), IsEmpty()) << "there is no faster path";
}

TEST(SlowLink, IsNotSaidWithoutCountersOrWithoutPower) {
  Signals no_bytes = detour_through_the_host();
  no_bytes.gpus[1].pcie_rx_bytes_s.reset();

  EXPECT_THAT(found_by(find_slow_link, no_bytes), IsEmpty());
  EXPECT_THAT(found_by(find_slow_link, seen_by_busy_alone(detour_through_the_host())), IsEmpty());
}

TEST(StuckCollective, IsFoundWhereRanksSpinForOneThatIsGone) {
  const auto findings = found_by(find_stuck_collective, waits_for_a_rank_that_is_gone());

  ASSERT_TRUE(is_one(findings, FindingCode::stuck_collective, 0.4, 0.5));
  EXPECT_TRUE(is_stood_behind(findings.front()));
  EXPECT_EQ(findings.front().severity, Severity::critical);
  EXPECT_NEAR(evidence_of(findings.front(), "busy_of_gpu_3"), 0.2, 1e-9)
      << "the one that does not come is named";
}

TEST(StuckCollective, IsNotAWaitThatEnds) {
  Signals signals = waits_for_a_rank_that_is_gone();
  signals.jobs.front().longest_hollow_ms = 8000;

  EXPECT_THAT(found_by(find_stuck_collective, signals), IsEmpty());
}

TEST(StuckCollective, IsNotSaidWhereStepsWentOn) {
  Signals signals = waits_for_a_rank_that_is_gone();
  signals.jobs.front().steps = with_steps(healthy_ranks(4)).jobs.front().steps;

  EXPECT_THAT(found_by(find_stuck_collective, signals), IsEmpty());
}

TEST(StuckCollective, IsSuspectedOnlyWherePowerWasLowAllTheTime) {
  Signals signals = all_spin(4, 0.6);
  signals.jobs.front().longest_hollow_ms = 28'000;
  signals.jobs.front().longest_hollow_until_ms = 30'000;
  for (GpuSignals& gpu : signals.gpus) gpu.power_highest_mw = 250'000;

  const auto findings = found_by(find_stuck_collective, signals);

  ASSERT_EQ(findings.size(), 1U);
  EXPECT_FALSE(is_stood_behind(findings.front())) << "a small batch reads the same";
}

TEST(StuckCollective, IsNotSaidOfServersTurnsOrOneProcess) {
  Signals serving = waits_for_a_rank_that_is_gone();
  serving.jobs.front().serves = true;
  Signals one_process = data_parallel(4);
  one_process.jobs.front().longest_hollow_ms = 14'000;
  Signals in_turns = split_model(4);
  in_turns.jobs.front().one_process_on_all = false;
  in_turns.jobs.front().longest_hollow_ms = 14'000;

  EXPECT_THAT(found_by(find_stuck_collective, in_turns), IsEmpty());
  EXPECT_THAT(found_by(find_stuck_collective, serving), IsEmpty());
  EXPECT_THAT(found_by(find_stuck_collective, one_process), IsEmpty());
}

TEST(GlooOnGpus, IsFoundWhereNoRankHasNccl) {
  Signals signals = healthy_ranks(2);
  set_libraries(signals, {"torch", "gloo"});
  signals.jobs.front().idle_together = 0.3;

  const auto findings = found_by(find_gloo_on_gpus, signals);

  ASSERT_TRUE(is_one(findings, FindingCode::gloo_on_gpus, 0.25, 0.35));
  EXPECT_TRUE(is_stood_behind(findings.front()));
  EXPECT_THAT(findings.front().ranks, ElementsAre(0, 1));
}

TEST(GlooOnGpus, IsNotSaidWithNcclOnVirtualGpusOrOfUnknownLibraries) {
  Signals virtual_gpus = healthy_ranks(2);
  set_libraries(virtual_gpus, {"torch", "gloo"});
  virtual_gpus.virtual_gpus = true;
  Signals unknown = healthy_ranks(2);
  for (ProcessSample& process : unknown.jobs.front().processes) process.libraries.reset();

  EXPECT_THAT(found_by(find_gloo_on_gpus, healthy_ranks(2)), IsEmpty());
  EXPECT_THAT(found_by(find_gloo_on_gpus, virtual_gpus), IsEmpty()) << "virtual GPUs are CPUs";
  EXPECT_THAT(found_by(find_gloo_on_gpus, unknown), IsEmpty());
}

TEST(ReduceEveryStep, IsShortWhereTheRankItselfIsLate) {
  Signals signals = with_steps(healthy_ranks(4));
  give_part(*signals.jobs.front().steps, "sync", 0.04);
  give_part_to_rank(*signals.jobs.front().steps, 3, "sync", 0.025);

  const auto findings = found_by(find_reduce_every_step, signals);

  ASSERT_TRUE(is_one(findings, FindingCode::reduce_every_step, 0.03, 0.05));
  EXPECT_THAT(findings.front().ranks, ElementsAre(0, 1, 2, 3));
}

TEST(ReduceEveryStep, IsNotALocalSyncOrOneRanksOwn) {
  Signals local = with_steps(healthy_ranks(4));
  give_part(*local.jobs.front().steps, "sync", 0.1);
  give_part_to_rank(*local.jobs.front().steps, 1, "sync", 0.08);
  Signals little = with_steps(healthy_ranks(4));
  give_part(*little.jobs.front().steps, "sync", 0.025);
  give_part_to_rank(*little.jobs.front().steps, 1, "sync", 0.005);
  Signals one_rank = with_steps(healthy_ranks(4));
  give_part_to_rank(*one_rank.jobs.front().steps, 0, "sync", 0.1);

  EXPECT_THAT(found_by(find_reduce_every_step, local), IsEmpty()) << "about as long on all ranks";
  EXPECT_THAT(found_by(find_reduce_every_step, one_rank), IsEmpty());
  EXPECT_THAT(found_by(find_reduce_every_step, little), IsEmpty());
  EXPECT_THAT(found_by(find_reduce_every_step, healthy_ranks(4)), IsEmpty())
      << "only step marks show it";
}

// In 20 ms samples: all begin together, each waits for another, none is waited for most.
Signals uneven_lengths(double waits) {
  Signals signals = healthy_ranks(4);
  JobSignals& job = signals.jobs.front();
  for (GpuInJob& member : job.members) member.time = GpuTime{1 - waits - 0.02, waits, 0.02, 0.25};
  job.time = JobTime{0.02, 0.01, true, true, 0};
  job.fine->kind = LaneKind::power_samples;
  job.fine->rises_together = 0.98;
  return signals;
}

TEST(UnevenWork, IsRanksThatWaitForEachOtherInTurn) {
  const auto findings = found_by(find_uneven_work, uneven_lengths(0.2));

  ASSERT_TRUE(is_one(findings, FindingCode::uneven_work, 0.18, 0.2));
  EXPECT_TRUE(is_stood_behind(findings.front()));
}

TEST(UnevenWork, IsNotAHealthyRunNorALateRankNorStagesOfAPipeline) {
  EXPECT_TRUE(found_by(find_uneven_work, uneven_lengths(0.04)).empty()) << "ranks differ a little";
  Signals late = uneven_lengths(0.2);
  late.jobs.front().members[2].time = GpuTime{0.98, 0, 0.02, 0.9};
  EXPECT_TRUE(found_by(find_uneven_work, late).empty()) << "one rank is waited for";
  Signals stages = uneven_lengths(0.2);
  stages.jobs.front().fine->rises_together = 0.6;
  stages.jobs.front().fine->period_strength = 0.95;
  EXPECT_TRUE(found_by(find_uneven_work, stages).empty()) << "they begin one after the other";
}

TEST(UnevenWork, IsToldWhereHardlyEverTwoRestAtOnceAndThereIsNoPeriod) {
  Signals unseen = uneven_lengths(0.2);
  unseen.jobs.front().fine->rises_together.reset();
  unseen.jobs.front().fine->period_strength = 0.25;
  EXPECT_TRUE(is_one(found_by(find_uneven_work, unseen), FindingCode::uneven_work, 0.18, 0.2));
  unseen.jobs.front().fine->period_strength = 0.6;
  EXPECT_THAT(found_by(find_uneven_work, unseen), IsEmpty()) << "they may be stages";
}

TEST(UnevenWork, TakesMoreWaitingWhereItIsSeenInMeans) {
  Signals signals = uneven_lengths(0.105);
  EXPECT_EQ(found_by(find_uneven_work, signals).size(), 1U);
  signals.jobs.front().fine->kind = LaneKind::sm;
  EXPECT_THAT(found_by(find_uneven_work, signals), IsEmpty());
}

TEST(UnevenWork, IsToldByMarksWhereTheLastRankChanges) {
  Signals signals = with_steps(healthy_ranks(4));
  StepSignals& steps = *signals.jobs.front().steps;
  give_part(steps, "collective_exposed", 0.2);
  steps.exposed_on_all = 0.03;
  for (RankSteps& rank : steps.ranks) rank.last_to_arrive = 0.25;

  EXPECT_TRUE(is_one(found_by(find_uneven_work, signals), FindingCode::uneven_work, 0.16, 0.18));

  steps.ranks[1].last_to_arrive = 0.85;
  EXPECT_TRUE(found_by(find_uneven_work, signals).empty()) << "rank 1 is late: C401";
}

TEST(UnevenWork, IsNotDataThatComesLateToOneRankAndThenToAnotherNorTheJitterOfShortSteps) {
  Signals signals = with_steps(healthy_ranks(4));
  StepSignals& steps = *signals.jobs.front().steps;
  give_part(steps, "collective_exposed", 0.2);
  steps.exposed_on_all = 0.03;
  for (RankSteps& rank : steps.ranks) rank.last_to_arrive = 0.25;
  ASSERT_FALSE(found_by(find_uneven_work, signals).empty());
  steps.uneven_data_wait = 0.15;
  EXPECT_TRUE(found_by(find_uneven_work, signals).empty()) << "its loader is late";

  steps.uneven_data_wait = 0;
  steps.duration_p50_ms = 10;
  EXPECT_TRUE(found_by(find_uneven_work, signals).empty()) << "2 ms, as a scheduler makes them";
}

TEST(UnevenWork, IsNotRanksThatWaitForACore) {
  Signals marked = with_steps(healthy_ranks(4));
  StepSignals& steps = *marked.jobs.front().steps;
  give_part(steps, "collective_exposed", 0.2);
  steps.exposed_on_all = 0.03;
  for (RankSteps& rank : steps.ranks) rank.last_to_arrive = 0.25;
  ASSERT_FALSE(found_by(find_uneven_work, marked).empty());
  marked.jobs.front().host.waiting_for_cpu = 0.1;
  EXPECT_TRUE(found_by(find_uneven_work, marked).empty()) << "others' programs had their cores";

  Signals outside = uneven_lengths(0.2);
  outside.jobs.front().host.waiting_for_cpu = 0.06;
  EXPECT_TRUE(is_one(found_by(find_uneven_work, outside), FindingCode::uneven_work, 0.12, 0.14))
      << "the rest is uneven work all the same";
}

// Eight H100s at 100 % and 135 W, met when they were already stuck; no power limit but the name's.
Signals all_still(int gpus) {
  Signals signals = without_processes(healthy_ranks(gpus));
  for (GpuSignals& gpu : signals.gpus) {
    gpu.sm.reset();
    gpu.tensor.reset();
    gpu.power_mw = 135'000;
    gpu.power_highest_mw = 136'000;
    gpu.power_lowest_mw = 134'000;
  }
  JobSignals& job = signals.jobs.front();
  if (job.fine) job.fine->swing = 0.02;
  for (GpuInJob& member : job.members) {
    member.busy = 1;
    member.power_of_limit = 0.19;
  }
  job.longest_hollow_ms = job.to_ms - job.from_ms;
  job.longest_hollow_until_ms = job.to_ms;
  return signals;
}

TEST(StuckCollective, IsToldOfGpusThatAreStillFromTheFirstReadingToTheLast) {
  const auto findings = found_by(find_stuck_collective, all_still(8));

  ASSERT_EQ(findings.size(), 1U);
  EXPECT_TRUE(is_stood_behind(findings.front()));
}

TEST(StuckCollective, MayDrawMoreWhereSmsAndTensorCoresAreSeenToRest) {
  Signals signals = all_still(2);
  const auto is_sure = [&] {
    const auto findings = found_by(find_stuck_collective, signals);
    return findings.size() == 1 && is_stood_behind(findings.front());
  };
  for (GpuInJob& member : signals.jobs.front().members) member.power_of_limit = 0.38;
  EXPECT_FALSE(is_sure()) << "little work may draw as much";
  for (GpuSignals& gpu : signals.gpus) {
    gpu.sm = 0.17;
    gpu.tensor = 0;
  }
  EXPECT_TRUE(is_sure());
  signals.gpus.front().tensor = 0.05;
  EXPECT_FALSE(is_sure()) << "it multiplies matrices";
}

TEST(StuckCollective, NamesTheGpuThatHoldsAModelAndDoesNothing) {
  Signals signals = all_still(2);
  GpuSignals absent = signals.gpus.front();
  absent.index = 2;
  absent.busy_highest = 0;
  absent.memory_median_bytes = 40e9;
  signals.gpus.push_back(absent);

  const auto findings = found_by(find_stuck_collective, signals);

  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(evidence_of(findings.front(), "idle_with_a_model_gpu_2"), 1);
  EXPECT_GE(findings.front().confidence, 0.8);
}

TEST(StuckCollective, IsNotAWaitThatEndsAndComesAgainNorOneThatWrites) {
  Signals again = waits_for_a_rank_that_is_gone();
  again.jobs.front().second_hollow_ms = 12'000;
  EXPECT_TRUE(found_by(find_stuck_collective, again).empty()) << "rollouts, or a save each minute";

  Signals ended = waits_for_a_rank_that_is_gone();
  ended.jobs.front().longest_hollow_until_ms = 15'000;
  EXPECT_TRUE(found_by(find_stuck_collective, ended).empty()) << "it went on";

  Signals saves = waits_for_a_rank_that_is_gone();
  saves.jobs.front().written_while_hollow = 4e9;
  EXPECT_TRUE(found_by(find_stuck_collective, saves).empty()) << "it writes a checkpoint";
}

TEST(StuckCollective, IsToldOfOneGpuOnlyWhereItsSmsAreEmpty) {
  Signals signals = all_still(1);
  for (GpuSignals& gpu : signals.gpus) {
    gpu.sm = 0.008;
    gpu.tensor = 0;
  }
  EXPECT_EQ(found_by(find_stuck_collective, signals).size(), 1U) << "its other ranks are elsewhere";

  for (GpuSignals& gpu : signals.gpus) gpu.sm = 0.1;
  EXPECT_THAT(found_by(find_stuck_collective, signals), IsEmpty()) << "it has little to do";
  for (GpuSignals& gpu : signals.gpus) gpu.sm.reset();
  EXPECT_THAT(found_by(find_stuck_collective, signals), IsEmpty()) << "nothing tells";
}

}  // namespace
}  // namespace lockstep
