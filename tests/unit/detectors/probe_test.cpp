// Findings that only probes can make: each with a positive, a near miss and a healthy run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detectors/all_detectors.hpp"
#include "detectors/split/pattern.hpp"

namespace lockstep {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

// Two ranks in step, by their own steps: nothing is wrong.
JobSignals healthy() {
  JobSignals job;
  job.origin = JobOrigin::steps;
  job.active = true;
  job.ranks = {0, 1};
  StepSignals steps;
  steps.count = 100;
  steps.duration_p50_ms = 20;
  steps.passes_a_step = 1;
  steps.synced_passes_a_step = 1;
  for (const int rank : {0, 1}) {
    RankSteps entry;
    entry.rank = rank;
    entry.count = 100;
    entry.duration_ms = 20;
    steps.ranks.push_back(entry);
  }
  PlaceSignals wait;
  wait.part = StepPart::data_wait;
  wait.place = {"train.py", 10, "DataLoader", 0};
  wait.ranks = {0, 1};
  wait.present = 1;
  wait.subjects = {7};
  steps.places.push_back(wait);
  job.steps = steps;
  ProbeSettings settings;
  settings.world_size = 2;
  for (const int rank : {0, 1})
    settings.loaders.push_back({.id = 7,
                                .rank = rank,
                                .passes = 1,
                                .workers = 2,
                                .prefetch = 2,
                                .batch = 8,
                                .shards = 2,
                                .pinned = true,
                                .persistent = true,
                                .shuffles = true});
  settings.seeds = {{0, "1"}, {1, "2"}};
  job.settings = settings;
  return job;
}

std::vector<Finding> found(std::vector<Finding> (*look)(const Seen&), const JobSignals& job) {
  Signals signals;
  signals.jobs = {job};
  const auto verdicts = judge_patterns(signals);
  return look({signals, verdicts});
}

PlaceSignals place(StepPart part, const char* what, int line, double share, double present = 1,
                   std::vector<int> ranks = {0, 1}) {
  PlaceSignals signals;
  signals.part = part;
  signals.place = {"train.py", line, what, 0};
  signals.share = signals.most_share = share;
  signals.present = present;
  signals.ranks = std::move(ranks);
  signals.calls_a_step = 1;
  return signals;
}

void give(JobSignals& job, StepPart part, double share) {
  job.steps->share[index_of(part)] = share;
  job.steps->p50_ms[index_of(part)] = share * job.steps->duration_p50_ms;
  for (RankSteps& rank : job.steps->ranks)
    rank.share[index_of(part)] = rank.usual_share[index_of(part)] = share;
}

TEST(HealthyProbedRun, HasNoFinding) {
  for (const auto look :
       {find_unsharded_data, find_set_epoch_missing, find_uneven_batches,
        find_workers_restarted_each_epoch, find_find_unused_parameters, find_accumulation_too_high,
        find_unfused_optimizer, find_allocator_thrash, find_same_seed_every_rank,
        find_unreduced_metric, find_input_starved, find_loader_without_workers,
        find_host_sync_every_step, find_reduce_every_step, find_sync_every_micro_step})
    EXPECT_THAT(found(look, healthy()), IsEmpty());
}

TEST(UnshardedData, IsALoaderThatKnowsOfNoRanks) {
  JobSignals job = healthy();
  for (LoaderSetting& loader : job.settings->loaders) loader.shards.reset();
  JobSignals streams = job;
  for (LoaderSetting& loader : streams.settings->loaders) loader.streams = true;
  JobSignals alone = job;
  alone.settings->world_size = 1;

  JobSignals one_order = job;
  for (LoaderSetting& loader : one_order.settings->loaders) loader.order_seed = "7";

  EXPECT_EQ(found(find_unsharded_data, job).front().lost_throughput, 0)
      << "seeds differ: other samples, though no epoch is one";
  EXPECT_EQ(found(find_unsharded_data, one_order).front().lost_throughput, 0.5)
      << "the same samples twice";
  ASSERT_THAT(found(find_unsharded_data, job), SizeIs(1));
  EXPECT_TRUE(found(find_unsharded_data, job).front().is_fault);
  EXPECT_EQ(found(find_unsharded_data, job).front().where.front().line, 10);
  EXPECT_THAT(found(find_unsharded_data, streams), IsEmpty()) << "its own code may split it";
  EXPECT_THAT(found(find_unsharded_data, alone), IsEmpty());
}

TEST(SetEpochMissing, IsAPassWithTheEpochOfThePassBefore) {
  JobSignals job = healthy();
  job.settings->loaders.front().same_epochs = 1;
  JobSignals in_order = job;
  in_order.settings->loaders.front().shuffles = false;

  EXPECT_THAT(found(find_set_epoch_missing, job), SizeIs(1));
  EXPECT_THAT(found(find_set_epoch_missing, in_order), IsEmpty());
}

TEST(UnevenBatches, AreLoadersOfDifferentLengths) {
  JobSignals job = healthy();
  for (LoaderSetting& loader : job.settings->loaders) loader.batches = 100;
  JobSignals uneven = job;
  uneven.settings->loaders.front().batches = 101;
  JobSignals streams = uneven;
  for (LoaderSetting& loader : streams.settings->loaders) loader.streams = true;
  JobSignals another = job;
  another.settings->loaders.push_back({.id = 8, .rank = 0, .passes = 1, .batch = 64, .batches = 5});

  ASSERT_THAT(found(find_uneven_batches, uneven), SizeIs(1));
  EXPECT_TRUE(found(find_uneven_batches, uneven).front().is_fault);
  EXPECT_THAT(found(find_uneven_batches, job), IsEmpty());
  EXPECT_THAT(found(find_uneven_batches, streams), IsEmpty());
  EXPECT_THAT(found(find_uneven_batches, another), IsEmpty()) << "evaluation's loader, on one rank";
}

// A program that tells its steps and settings itself, as lockstep-train does: no line of its source
// is known.
// As FSDP's fully_shard does in every step, below the user's own lines.
JobSignals sharded() {
  JobSignals job = healthy();
  job.steps->synced_passes_a_step = 0;  // no DDP
  job.steps->places.push_back(
      place(StepPart::collective_exposed, "all_gather_into_tensor", 27, 0.2));
  job.steps->places.push_back(
      place(StepPart::collective_exposed, "reduce_scatter_tensor", 28, 0.2));
  give(job, StepPart::collective_exposed, 0.4);
  job.steps->exposed_on_all = 0.4;
  return job;
}

TEST(ShardedModel, ItsCollectivesAreNoMetrics) {
  EXPECT_THAT(found(find_reduce_every_step, sharded()), IsEmpty());
  JobSignals with_a_metric = sharded();
  with_a_metric.steps->places.push_back(
      place(StepPart::collective_exposed, "all_reduce", 31, 0.05));
  const auto findings = found(find_reduce_every_step, with_a_metric);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings.front().lost_throughput, 0.05) << "the metric's own";
}

TEST(ShardedModel, WorksInStepAndItsCollectivesAreExposed) {
  Signals signals;
  signals.jobs = {sharded()};

  EXPECT_EQ(judge_patterns(signals).front().verdict.pattern, Pattern::in_step);
  JobSignals on_gpus = sharded();
  on_gpus.settings->on_gpu = true;
  EXPECT_THAT(found(find_exposed_collectives, on_gpus), SizeIs(1));
}

TEST(ToldSettings, AreEnoughWithoutLines) {
  JobSignals told = healthy();
  told.steps->places.clear();
  told.steps->passes_a_step = told.steps->synced_passes_a_step = 0;
  told.settings->backend = "gloo";
  told.settings->finds_unused = false;
  told.settings->memory_total_bytes = 100;
  told.settings->memory_peak_bytes = 10;
  for (const auto look : {find_unsharded_data, find_set_epoch_missing, find_uneven_batches,
                          find_find_unused_parameters, find_accumulation_too_high,
                          find_same_seed_every_rank, find_reduce_every_step})
    EXPECT_THAT(found(look, told), IsEmpty());

  JobSignals wrong = told;
  wrong.settings->finds_unused = true;
  wrong.settings->seeds = {{0, "1"}, {1, "1"}};
  wrong.settings->other_collectives_a_step = 2;
  wrong.settings->loaders.front().shards.reset();
  wrong.steps->steps_without_optimizer = 0.75;
  for (const auto look :
       {find_unsharded_data, find_find_unused_parameters, find_accumulation_too_high,
        find_same_seed_every_rank, find_reduce_every_step})
    EXPECT_THAT(found(look, wrong), SizeIs(1));
  JobSignals alone = wrong;
  alone.settings->backend.reset();
  for (const auto look : {find_unsharded_data, find_same_seed_every_rank})
    EXPECT_THAT(found(look, alone), IsEmpty()) << "no gradients are averaged";
}

TEST(WorkersRestarted, CostFromTheSecondPassOn) {
  JobSignals job = healthy();
  job.settings->loaders.front().persistent = false;
  job.settings->loaders.front().passes = 3;
  job.steps->places.push_back(
      place(StepPart::data_wait, "DataLoader workers start", 10, 0.06, 0.02));
  JobSignals first = job;
  first.settings->loaders.front().passes = 1;

  ASSERT_THAT(found(find_workers_restarted_each_epoch, job), SizeIs(1));
  EXPECT_NEAR(found(find_workers_restarted_each_epoch, job).front().lost_throughput, 0.06, 1e-9);
  EXPECT_THAT(found(find_workers_restarted_each_epoch, first), IsEmpty())
      << "nobody can save the first start";
}

TEST(FindUnused, IsForNothingWhereNothingIsUnused) {
  JobSignals job = healthy();
  job.settings->finds_unused = true;
  JobSignals needed = job;
  needed.settings->unused_bytes = 4096;

  EXPECT_THAT(found(find_find_unused_parameters, job), SizeIs(1));
  EXPECT_THAT(found(find_find_unused_parameters, needed), IsEmpty());
}

TEST(AccumulationTooHigh, IsNotSaidWhereADoubleBatchWouldNotFit) {
  JobSignals job = healthy();
  job.steps->passes_a_step = 8;
  job.settings->memory_total_bytes = 100;
  job.settings->memory_peak_bytes = 40;
  job.settings->batch_room = 3.5;
  EXPECT_THAT(found(find_accumulation_too_high, job), SizeIs(1));

  job.settings->batch_room = 1.6;
  EXPECT_THAT(found(find_accumulation_too_high, job), IsEmpty());
}

TEST(AccumulationTooHigh, NeedsRoomInTheMemory) {
  JobSignals job = healthy();
  job.steps->passes_a_step = 8;
  job.settings->memory_peak_bytes = 20e9;
  job.settings->memory_total_bytes = 80e9;
  JobSignals full = job;
  full.settings->memory_peak_bytes = 70e9;

  EXPECT_THAT(found(find_accumulation_too_high, job), SizeIs(1));
  EXPECT_THAT(found(find_accumulation_too_high, full), IsEmpty());
}

TEST(AccumulationTooHigh, CostsNothingWhereTheGpuNeverRests) {
  JobSignals job = healthy();
  job.steps->passes_a_step = 4;
  job.settings->memory_peak_bytes = 20e9;
  job.settings->memory_total_bytes = 80e9;
  RankDevices busy;
  busy.devices = {{.device = 0, .computes = 0.97, .idle = 0.03}};
  job.steps->devices = DeviceSignals{};
  job.steps->devices->ranks = {busy};
  EXPECT_THAT(found(find_accumulation_too_high, job), IsEmpty());

  job.steps->devices->ranks.front().devices.front().computes = 0.8;
  EXPECT_THAT(found(find_accumulation_too_high, job), SizeIs(1));
}

TEST(UnfusedOptimizer, MattersOnAGpuWhereTheUpdateShows) {
  JobSignals job = healthy();
  job.settings->on_gpu = true;
  job.settings->optimizer_can_fuse = true;
  give(job, StepPart::optimizer, 0.2);
  JobSignals small = job;
  give(small, StepPart::optimizer, 0.03);
  JobSignals fused = job;
  fused.settings->optimizer_fused = true;

  EXPECT_THAT(found(find_unfused_optimizer, job), SizeIs(1));
  EXPECT_THAT(found(find_unfused_optimizer, small), IsEmpty());
  EXPECT_THAT(found(find_unfused_optimizer, fused), IsEmpty());
}

TEST(AllocatorThrash, IsARetryOrAllocationsInTheSteadyState) {
  JobSignals job = healthy();
  job.settings->allocation_retries = 2;
  JobSignals few = healthy();
  few.settings->device_allocations_a_s = 0.2;

  EXPECT_THAT(found(find_allocator_thrash, job), SizeIs(1));
  EXPECT_THAT(found(find_allocator_thrash, few), IsEmpty());
}

TEST(SameSeed, IsNoMoreThanASuspicion) {
  JobSignals job = healthy();
  job.settings->seeds = {{0, "42"}, {1, "42"}};

  ASSERT_THAT(found(find_same_seed_every_rank, job), SizeIs(1));
  EXPECT_FALSE(is_stood_behind(found(find_same_seed_every_rank, job).front()));
}

TEST(UnreducedMetric, IsEvaluationOnAllRanksWithoutAReduce) {
  JobSignals job = healthy();
  job.steps->places.push_back(place(StepPart::evaluation, "forward", 40, 0.1, 0.02));
  JobSignals reduced = job;
  reduced.steps->places.push_back(
      place(StepPart::collective_exposed, "all_reduce", 44, 0.001, 0.02));
  JobSignals on_one = healthy();
  on_one.steps->places.push_back(place(StepPart::evaluation, "forward", 40, 0.1, 0.02, {0}));

  EXPECT_THAT(found(find_unreduced_metric, job), SizeIs(1));
  EXPECT_THAT(found(find_unreduced_metric, reduced), IsEmpty());
  EXPECT_THAT(found(find_unreduced_metric, on_one), IsEmpty());
}

TEST(InputStarved, ByProbesNeedsWorkersThatDoNotKeepUp) {
  JobSignals job = healthy();
  give(job, StepPart::data_wait, 0.4);
  job.settings->batch_ms_of_worker[7] = 40;  // over 2 workers, as long as the step
  JobSignals keeps_up = healthy();
  give(keeps_up, StepPart::data_wait, 0.15);
  keeps_up.settings->batch_ms_of_worker[7] = 4;
  JobSignals hidden = job;
  hidden.steps->hidden_data_wait = 0.38;

  ASSERT_THAT(found(find_input_starved, job), SizeIs(1));
  EXPECT_EQ(found(find_input_starved, job).front().rung, 1);
  EXPECT_EQ(found(find_input_starved, job).front().where.front().line, 10);
  EXPECT_THAT(found(find_input_starved, keeps_up), IsEmpty()) << "3 ms a batch is the queue";
  EXPECT_THAT(found(find_input_starved, hidden), IsEmpty()) << "behind the GPU it costs nothing";
}

TEST(InputStarved, ByProbesIsFoundWhereTheTrainingThreadMakesTheData) {
  JobSignals job = healthy();
  give(job, StepPart::data_wait, 0.4);
  job.settings->batch_ms_of_worker[7] = 4;  // the loader itself keeps up
  job.steps->places.push_back(place(StepPart::data_wait, "augment", 22, 0.38, 1));

  const auto findings = found(find_input_starved, job);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_GT(findings.front().confidence, 0.9);
}

TEST(InputStarved, ByProbesIsFoundWhereBatchesComeInPairs) {
  JobSignals job = healthy();
  give(job, StepPart::data_wait, 0.75);
  job.settings->batch_ms_of_worker[7] = 320;  // over 2 workers, as long as the mean step
  job.steps->duration_p50_ms = 280;
  job.steps->wall_ms = 165.0 * static_cast<double>(job.steps->count);

  ASSERT_THAT(found(find_input_starved, job), SizeIs(1));
  EXPECT_GT(found(find_input_starved, job).front().confidence, 0.9);
}

TEST(CpuOversubscribed, ByProbesNamesTheRankWhoseCoreIsTaken) {
  JobSignals job = healthy();
  job.settings->waits_for_a_core = {{0, 0.01}, {1, 0.45}};
  const auto findings = found(find_cpu_oversubscribed, job);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_NEAR(findings.front().lost_throughput, 0.45, 1e-9);
  EXPECT_EQ(findings.front().ranks, std::vector{1});

  job.settings->waits_for_a_core = {{0, 0.02}, {1, 0.04}};
  EXPECT_THAT(found(find_cpu_oversubscribed, job), IsEmpty());
}

TEST(SlowHostCode, CostsAllThatItsLineAndItsFunctionDo) {
  JobSignals job = healthy();
  give(job, StepPart::other, 0.68);
  for (const auto& [what, line, share] :
       {std::tuple("torch:__deepcopy__", 40, 0.5), std::tuple("clone", 40, 0.06),
        std::tuple("torch:__deepcopy__", 41, 0.05), std::tuple("zip", 60, 0.02)})
    job.steps->places.push_back(place(StepPart::other, what, line, share));

  const auto findings = found(find_slow_host_code, job);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_NEAR(findings.front().lost_throughput, 0.61, 1e-9) << "line 60 is another's";
  EXPECT_EQ(findings.front().where.front().line, 40);
}

TEST(SlowHostCode, LeavesAFrameworksOwnLoopAndTheHooksOut) {
  JobSignals framework = healthy();
  give(framework, StepPart::other, 0.1);
  framework.steps->places.push_back(place(StepPart::other, "lightning:advance", 14, 0.1));
  JobSignals reads = healthy();
  give(reads, StepPart::other, 0.1);
  reads.steps->places.push_back(place(StepPart::other, "the line itself", 14, 0.1));
  JobSignals hooked = reads;
  hooked.steps->hooks_ms = 0.08 * hooked.steps->mean_ms();

  EXPECT_THAT(found(find_slow_host_code, framework), IsEmpty());
  EXPECT_THAT(found(find_slow_host_code, reads), SizeIs(1));
  reads.steps->places.back().most_share = 0.07;
  ASSERT_THAT(found(find_slow_host_code, reads), SizeIs(1));
  EXPECT_FALSE(is_stood_behind(found(find_slow_host_code, reads).front()))
      << "a few per cent that only run";
  EXPECT_THAT(found(find_slow_host_code, hooked), IsEmpty());
}

TEST(SlowHostCode, SaysThatItSleepsAndLeavesOutWhatItHadNoCoreFor) {
  JobSignals job = healthy();
  give(job, StepPart::other, 0.4);
  job.steps->places.push_back(place(StepPart::other, "time.sleep", 40, 0.4));
  MainThreadDoing doing;
  doing.looks = 100;
  doing.blocked[index_of(ThreadDoing::sleep)] = 0.7;
  doing.waiting_for_a_core = 0.25;
  doing.running = 0.05;
  job.steps->main_thread[index_of(StepPart::other)] = doing;

  const auto findings = found(find_slow_host_code, job);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_NEAR(findings.front().lost_throughput, 0.3, 1e-9);
  const auto sleeps = std::ranges::find(findings.front().evidence, "main_thread_sleeps",
                                        [](const Evidence& one) { return one.signal; });
  ASSERT_NE(sleeps, findings.front().evidence.end());
  EXPECT_NEAR(sleeps->value, 0.28, 1e-9) << "of the time, as everywhere";

  job.steps->main_thread[index_of(StepPart::other)]->waiting_for_a_core = 0.9;
  EXPECT_THAT(found(find_slow_host_code, job), IsEmpty()) << "stolen cores are X709's";
}

TEST(LoaderWithoutWorkers, ByProbesIsWorthItAboveTheQueue) {
  JobSignals job = healthy();
  for (LoaderSetting& loader : job.settings->loaders) loader.workers = 0;
  give(job, StepPart::data_wait, 0.3);
  JobSignals cheap = job;
  give(cheap, StepPart::data_wait, 0.06);  // 1.2 ms of 20

  EXPECT_THAT(found(find_loader_without_workers, job), SizeIs(1));
  EXPECT_THAT(found(find_loader_without_workers, cheap), IsEmpty());
}

TEST(LoaderWithoutWorkers, ByProbesIsNotToBlameForBatchesMadeByHand) {
  JobSignals job = healthy();
  for (LoaderSetting& loader : job.settings->loaders) loader.workers = 0;
  give(job, StepPart::data_wait, 0.3);
  job.steps->places.push_back(place(StepPart::data_wait, "get_batch", 22, 0.28));

  EXPECT_THAT(found(find_loader_without_workers, job), IsEmpty());
}

TEST(InputStarved, TellsAThreadOfTheProgramsOwnFromTheTrainingThread) {
  const auto evidence_of = [](const char* what) {
    JobSignals job = healthy();
    give(job, StepPart::data_wait, 0.5);
    for (PlaceSignals& each : job.steps->places) each.share = each.most_share = 0;
    job.steps->places.insert(job.steps->places.begin(), place(StepPart::data_wait, what, 22, 0.5));
    std::vector<std::string> names;
    for (const Finding& finding : found(find_input_starved, job))
      for (const Evidence& item : finding.evidence) names.push_back(item.signal);
    return names;
  };

  EXPECT_THAT(evidence_of("threading:wait<__iter__"),
              ::testing::Contains("made_in_a_thread_of_its_own"));
  EXPECT_THAT(evidence_of("get_batch"), ::testing::Contains("made_in_the_training_thread"));
}

TEST(HostSync, OnAGpuCostsWhatTheGpuIsIdle) {
  JobSignals job = healthy();
  PlaceSignals item = place(StepPart::sync, "Tensor.item", 30, 0.4);
  item.on_device = true;
  job.steps->places.push_back(item);
  job.steps->gpu_idle_share = 0.15;
  JobSignals now_and_then = healthy();
  now_and_then.steps->places.push_back(place(StepPart::sync, "Tensor.item", 30, 0.04, 0.1));

  ASSERT_THAT(found(find_host_sync_every_step, job), SizeIs(1));
  EXPECT_NEAR(found(find_host_sync_every_step, job).front().lost_throughput, 0.15, 1e-9)
      << "the wait itself is the GPU's work";
  EXPECT_THAT(found(find_host_sync_every_step, now_and_then), IsEmpty());
}

TEST(LaunchBound, ByProbesIsAGpuThatIsDoneAsSoonAsItsWorkIsQueued) {
  JobSignals job = healthy();
  give(job, StepPart::forward, 0.4);
  give(job, StepPart::backward, 0.4);
  job.steps->gpu_ran_dry = 0.97;
  job.steps->gpu_asked = 30;
  JobSignals behind = job;
  behind.steps->gpu_ran_dry = 0.1;
  JobSignals waits = job;
  PlaceSignals item = place(StepPart::sync, "Tensor.item", 30, 0.01);
  item.on_device = true;
  waits.steps->places.push_back(item);

  ASSERT_THAT(found(find_launch_bound, job), SizeIs(1));
  EXPECT_EQ(found(find_launch_bound, job).front().rung, 1);
  EXPECT_THAT(found(find_launch_bound, behind), IsEmpty());
  EXPECT_THAT(found(find_launch_bound, waits), IsEmpty())
      << "a value read in each step empties the queue as well";
  EXPECT_THAT(found(find_launch_bound, healthy()), IsEmpty());
}

TEST(ReduceEveryStep, ByProbesIsACallOfTheProgramsOwn) {
  JobSignals job = healthy();
  job.steps->places.push_back(place(StepPart::collective_exposed, "all_reduce", 50, 0.1));
  JobSignals gradients = healthy();
  gradients.steps->places.push_back(
      place(StepPart::collective_exposed, "gradient all-reduce", 20, 0.3));
  JobSignals rare = healthy();
  rare.steps->places.push_back(place(StepPart::collective_exposed, "all_reduce", 50, 0.01, 0.05));

  EXPECT_THAT(found(find_reduce_every_step, job), SizeIs(1));
  EXPECT_THAT(found(find_reduce_every_step, gradients), IsEmpty());
  EXPECT_THAT(found(find_reduce_every_step, rare), IsEmpty());
}

TEST(SyncEveryMicroStep, ByProbesCountsThePassesThatSync) {
  JobSignals job = healthy();
  job.steps->passes_a_step = 4;
  job.steps->synced_passes_a_step = 4;
  give(job, StepPart::collective_exposed, 0.2);
  JobSignals once = job;
  once.steps->synced_passes_a_step = 1;

  ASSERT_THAT(found(find_sync_every_micro_step, job), SizeIs(1));
  EXPECT_NEAR(found(find_sync_every_micro_step, job).front().lost_throughput, 0.15, 1e-9);
  EXPECT_THAT(found(find_sync_every_micro_step, once), IsEmpty());
}

}  // namespace
}  // namespace lockstep
