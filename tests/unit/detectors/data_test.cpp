// D201 to D203: data that comes late.
#include "unit/detectors/finding_checks.hpp"

namespace lockstep {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// In every step all ranks' GPUs are empty for a third of the time, while the main processes sleep.
Signals starved(int gpus) {
  Signals signals = healthy_ranks(gpus);
  for (int gpu = 0; gpu < gpus; ++gpu) load_gpu(signals, gpu, 0.65, 0.05);
  signals.jobs.front().busy_sum = 0.65 * gpus;
  signals.jobs.front().idle_together = 0.35;
  signals.jobs.front().host.main_cpu = 0.4;
  return signals;
}

Signals starved_without_workers(int gpus) {
  Signals signals = starved(gpus);
  signals.jobs.front().host.main_cpu = 1.0;
  signals.jobs.front().host.loader_workers = signals.jobs.front().host.most_loader_workers = 0;
  return signals;
}

// A batch comes over PCIe while the GPUs do nothing, step after step.
Signals waits_for_copies(int gpus) {
  Signals signals = healthy_ranks(gpus);
  signals.jobs.front().copy_while_idle = -0.55;
  signals.jobs.front().idle_together = 0.06;
  for (GpuSignals& gpu : signals.gpus) gpu.pcie_rx_bytes_s = 3.5e8;
  return signals;
}

TEST(InputStarved, IsFoundWhereAllGpusAreEmptyTogetherInEveryStep) {
  const auto findings = found_by(find_input_starved, starved(4));

  ASSERT_TRUE(is_one(findings, FindingCode::input_starved, 0.3, 0.4));
  EXPECT_TRUE(is_stood_behind(findings.front()));
  EXPECT_THAT(findings.front().ranks, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(findings.front().severity, Severity::critical);
}

TEST(InputStarved, IsFoundOnOneGpu) {
  Signals signals = alone(1);
  signals.jobs.front().idle_together = 0.12;
  signals.jobs.front().host.waiting_for_disk = 0.4;

  const auto findings = found_by(find_input_starved, signals);

  ASSERT_TRUE(is_one(findings, FindingCode::input_starved, 0.1, 0.15));
  EXPECT_TRUE(is_stood_behind(findings.front())) << "workers that wait for the disk say why";
}

TEST(InputStarved, IsASuspicionWhereTheMainProcessNeverSleeps) {
  Signals signals = alone(1);
  JobSignals& job = signals.jobs.front();
  job.idle_together = 0.3;
  job.host.loader_workers = job.host.most_loader_workers = 4;
  job.host.read_bytes_s = 5e7;
  job.host.main_cpu = 1.0;

  const auto findings = found_by(find_input_starved, signals);

  ASSERT_EQ(findings.size(), 1U);
  EXPECT_FALSE(is_stood_behind(findings.front())) << "who waits for a batch sleeps";
}

TEST(InputStarved, IsMeasuredByStepMarks) {
  Signals signals = with_steps(healthy_ranks(4));
  give_part(*signals.jobs.front().steps, "data_wait", 0.06);

  const auto findings = found_by(find_input_starved, signals);

  ASSERT_TRUE(is_one(findings, FindingCode::input_starved, 0.06, 0.06));
  EXPECT_GE(findings.front().confidence, 0.9);
}

TEST(InputStarved, IsNotSaidOfTheGapsOfHealthySteps) {
  Signals signals = starved(4);
  signals.jobs.front().idle_together = 0.08;

  EXPECT_THAT(found_by(find_input_starved, signals), IsEmpty());
}

TEST(InputStarved, IsNotSaidWhereStepMarksMeasureNoWait) {
  Signals signals = with_steps(starved(4));
  give_part(*signals.jobs.front().steps, "data_wait", 0.04);

  EXPECT_THAT(found_by(find_input_starved, signals), IsEmpty())
      << "marks know better than the idle time";
}

TEST(InputStarved, IsSuspectedOnlyWhereTheMainProcessFillsItsCore) {
  Signals signals = starved(4);
  signals.jobs.front().host.main_cpu = 1.0;

  const auto findings = found_by(find_input_starved, signals);

  ASSERT_EQ(findings.size(), 1U);
  EXPECT_FALSE(is_stood_behind(findings.front()))
      << "a host that launches too slowly looks the same";
}

TEST(InputStarved, IsSuspectedOnlyWhereNothingRepeats) {
  Signals signals = starved(4);
  signals.jobs.front().fine->period_strength = 0.1;
  signals.jobs.front().fine->swing = 0.4;

  const auto findings = found_by(find_input_starved, signals);

  ASSERT_EQ(findings.size(), 1U);
  EXPECT_FALSE(is_stood_behind(findings.front()));
}

TEST(InputStarved, IsSuspectedOnlyFromReadingsFarApartOrWithoutProcesses) {
  Signals coarse = starved(4);
  coarse.tick_ms = 5000;

  for (const Signals& signals : {coarse, without_processes(starved(4))})
    for (const Finding& finding : found_by(find_input_starved, signals))
      EXPECT_FALSE(is_stood_behind(finding)) << finding.confidence;
}

TEST(InputStarved, IsNotSaidOfTheStallsOfSaving) {
  Signals saves = healthy_ranks(2);
  stall_every(saves, 10'000, {.written_bytes = 5e9}, 2000);
  saves.jobs.front().idle_together = saves.jobs.front().stalls.share + 0.02;
  Signals starved_too = saves;
  starved_too.jobs.front().idle_together = 2 * saves.jobs.front().stalls.share;

  EXPECT_THAT(found_by(find_input_starved, saves), IsEmpty());
  EXPECT_EQ(found_by(find_input_starved, starved_too).size(), 1U) << "more than the saves explain";
}

TEST(InputStarved, IsNotSaidOfServersOrOfOtherPatterns) {
  Signals split = split_model(4);
  split.jobs.front().idle_together = 0.4;
  Signals foreign = alone(1);
  foreign.jobs.front().origin = JobOrigin::foreign;
  foreign.jobs.front().idle_together = 0.4;

  EXPECT_THAT(found_by(find_input_starved, server(2)), IsEmpty()) << "a server waits for requests";
  EXPECT_THAT(found_by(find_input_starved, split), IsEmpty());
  EXPECT_THAT(found_by(find_input_starved, foreign), IsEmpty())
      << "nobody knows what that process does";
}

TEST(InputStarved, IsLessSureWithoutTheHost) {
  Signals signals = starved(4);
  signals.jobs.front().host = {};

  const auto findings = found_by(find_input_starved, signals);

  ASSERT_EQ(findings.size(), 1U);
  EXPECT_LT(findings.front().confidence,
            found_by(find_input_starved, starved(4)).front().confidence);
}

TEST(LoaderWithoutWorkers, IsFoundWhereTheMainProcessLoadsBetweenSteps) {
  const auto findings = found_by(find_loader_without_workers, starved_without_workers(4));

  ASSERT_TRUE(is_one(findings, FindingCode::loader_without_workers, 0.3, 0.4));
  EXPECT_TRUE(is_stood_behind(findings.front()));
  EXPECT_THAT(findings.front().gpus, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(evidence_of(findings.front(), "loader_workers"), 0);
}

TEST(LoaderWithoutWorkers, CostsWhatStepMarksMeasure) {
  Signals signals = with_steps(starved_without_workers(2));
  give_part(*signals.jobs.front().steps, "data_wait", 0.12);

  EXPECT_TRUE(is_one(found_by(find_loader_without_workers, signals),
                     FindingCode::loader_without_workers, 0.12, 0.12));
}

TEST(LoaderWithoutWorkers, IsNotSaidWhereTheGpusDoNotWait) {
  Signals signals = healthy_ranks(4);
  signals.jobs.front().host.loader_workers = signals.jobs.front().host.most_loader_workers = 0;
  signals.jobs.front().idle_together = 0.08;

  EXPECT_THAT(found_by(find_loader_without_workers, signals), IsEmpty())
      << "a healthy process fills its core by spinning";
}

TEST(LoaderWithoutWorkers, IsNotSaidOfALoaderOfThreadsOrOfAProcessThatSleeps) {
  Signals signals = starved_without_workers(4);
  signals.jobs.front().host.main_cpu = 2.8;
  Signals sleeps = starved_without_workers(4);
  sleeps.jobs.front().host.main_cpu = 0.6;

  EXPECT_THAT(found_by(find_loader_without_workers, signals), IsEmpty());
  EXPECT_THAT(found_by(find_loader_without_workers, sleeps), IsEmpty())
      << "nor of one that waits for something else";
}

TEST(LoaderWithoutWorkers, IsNotSaidWhereSomeRankHasWorkers) {
  Signals signals = starved_without_workers(4);
  signals.jobs.front().host.most_loader_workers = 4;

  EXPECT_THAT(found_by(find_loader_without_workers, signals), IsEmpty());
}

TEST(LoaderWithoutWorkers, IsNotSaidWhereTheProcessTreeCannotBeRead) {
  Signals no_tree = starved_without_workers(4);
  no_tree.jobs.front().host.loader_workers = no_tree.jobs.front().host.most_loader_workers =
      std::nullopt;
  Signals no_cpu = starved_without_workers(4);
  no_cpu.jobs.front().host.main_cpu.reset();

  EXPECT_THAT(found_by(find_loader_without_workers, no_tree), IsEmpty());
  EXPECT_THAT(found_by(find_loader_without_workers, no_cpu), IsEmpty());
}

TEST(PageableCopies, AreFoundWhereBytesArriveWhileTheGpuIsEmpty) {
  const auto findings = found_by(find_pageable_copies, waits_for_copies(2));

  ASSERT_TRUE(is_one(findings, FindingCode::pageable_copies, 0.02, 0.2));
  EXPECT_TRUE(is_stood_behind(findings.front()));
  EXPECT_THAT(findings.front().gpus, ElementsAre(0, 1));
}

TEST(PageableCopies, AreMeasuredByStepMarks) {
  Signals slow = with_steps(healthy_ranks(2));
  give_part(*slow.jobs.front().steps, "copy", 0.12);
  Signals fast = with_steps(waits_for_copies(2));
  give_part(*fast.jobs.front().steps, "copy", 0.03);

  EXPECT_TRUE(
      is_one(found_by(find_pageable_copies, slow), FindingCode::pageable_copies, 0.12, 0.12));
  EXPECT_THAT(found_by(find_pageable_copies, fast), IsEmpty());
}

TEST(PageableCopies, AreNotSaidOfALoaderThatPinsNorBesideABusyGpu) {
  Signals signals = with_steps(healthy_ranks(2));
  JobSignals& job = signals.jobs.front();
  give_part(*job.steps, "copy", 0.12);
  job.settings.emplace().loaders.push_back({.id = 1, .pinned = false});
  job.idle_together = 0.2;
  EXPECT_TRUE(
      is_one(found_by(find_pageable_copies, signals), FindingCode::pageable_copies, 0.12, 0.12));

  job.idle_together = 0.01;
  EXPECT_THAT(found_by(find_pageable_copies, signals), IsEmpty());

  job.idle_together = 0.2;
  job.settings->loaders.front().pinned = true;
  EXPECT_THAT(found_by(find_pageable_copies, signals), IsEmpty());
}

TEST(PageableCopies, AreNotCopiesThatOverlap) {
  Signals signals = waits_for_copies(2);
  signals.jobs.front().copy_while_idle = -0.45;

  EXPECT_THAT(found_by(find_pageable_copies, signals), IsEmpty());
}

TEST(PageableCopies, AreNotAFewBytes) {
  Signals signals = waits_for_copies(2);
  for (GpuSignals& gpu : signals.gpus) gpu.pcie_rx_bytes_s = 2.5e8;

  EXPECT_THAT(found_by(find_pageable_copies, signals), IsEmpty());
}

TEST(PageableCopies, AreNotGradientsThatGoBothWays) {
  Signals signals = waits_for_copies(2);
  for (GpuSignals& gpu : signals.gpus) gpu.pcie_tx_bytes_s = 3e8;

  EXPECT_THAT(found_by(find_pageable_copies, signals), IsEmpty());
}

TEST(PageableCopies, AreNotSaidWithoutCounters) {
  Signals no_relation = waits_for_copies(2);
  no_relation.jobs.front().copy_while_idle.reset();
  Signals no_rate = waits_for_copies(2);
  for (GpuSignals& gpu : no_rate.gpus) gpu.pcie_rx_bytes_s.reset();

  EXPECT_THAT(found_by(find_pageable_copies, no_relation), IsEmpty());
  EXPECT_THAT(found_by(find_pageable_copies, no_rate), IsEmpty());
}

// One GPU whose power falls to rest for 0.45 of the time, though it reads 0.7 busy.
Signals stands_in_copies(double share, double received) {
  Signals signals = healthy_ranks(1);
  JobSignals& job = signals.jobs.front();
  job.idle_together = 0.3;
  HostDoing doing;
  doing.looks = 200;
  doing.rest_by_power = 0.45;
  doing.workers_ever_at_work = 0;
  doing.stacks_in_all = 100;
  doing.all_stacks = {{StepPart::copy, share, {"/home/ada/train.py", 130, ".to"}, 50}};
  job.host.doing = doing;
  for (GpuSignals& gpu : signals.gpus) gpu.pcie_rx_bytes_s = received;
  return signals;
}

TEST(PageableCopies, AreNamedByTheLineThatCopies) {
  const auto findings = found_by(find_pageable_copies, stands_in_copies(0.5, 5e9));
  ASSERT_TRUE(is_one(findings, FindingCode::pageable_copies, 0.44, 0.46))
      << "readings of busy count the copies themselves";
  ASSERT_EQ(findings.front().where.size(), 1U);
  EXPECT_EQ(findings.front().where.front().line, 130);

  EXPECT_THAT(found_by(find_pageable_copies, stands_in_copies(0.05, 5e9)), IsEmpty());
  EXPECT_THAT(found_by(find_pageable_copies, stands_in_copies(0.5, 1e7)), IsEmpty())
      << "a line that waits for the GPU, not for bytes";
}

TEST(PageableCopies, AreFoundWithoutStacksWhereGigabytesArriveWhileAllElseRests) {
  Signals signals = stands_in_copies(0, 5e9);
  signals.jobs.front().host.doing->stacks_in_all = 0;
  EXPECT_TRUE(
      is_one(found_by(find_pageable_copies, signals), FindingCode::pageable_copies, 0.44, 0.46));
  for (GpuSignals& gpu : signals.gpus) gpu.pcie_tx_bytes_s = 4e9;
  EXPECT_THAT(found_by(find_pageable_copies, signals), IsEmpty()) << "as with offloading";
}

}  // namespace
}  // namespace lockstep
