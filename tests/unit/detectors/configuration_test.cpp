// X701 to X709 and L8xx: how the job was started and set up, and what its own messages say.
#include "unit/detectors/finding_checks.hpp"

namespace lockstep {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ProcessSample& first_process(Signals& signals) { return signals.jobs.front().processes.front(); }

// Three of four promised ranks are there, and spin for the fourth.
Signals one_rank_missing() {
  Signals signals = healthy_ranks(3);
  set_environment(signals, "LOCAL_WORLD_SIZE", "4");
  set_environment(signals, "WORLD_SIZE", "4");
  draw_power(signals, 0.25);
  signals.jobs.front().fine->swing = 0.02;
  return signals;
}

Signals saved_by(int ranks, double share) {
  Signals signals = with_steps(healthy_ranks(4));
  StepSignals& steps = *signals.jobs.front().steps;
  for (int rank = 0; rank < ranks; ++rank) give_part_to_rank(steps, rank, "checkpoint", share);
  steps.ranks_that_save = ranks;
  return signals;
}

// Runnable at nearly every look, and half a core each.
Signals too_few_cores() {
  Signals signals = healthy_ranks(4);
  signals.jobs.front().host.runnable = 0.97;
  signals.jobs.front().host.main_cpu = 0.5;
  signals.jobs.front().idle_together = 0.2;
  return signals;
}

Signals with_message(const std::string& line) {
  Signals signals = healthy_ranks(2);
  signals.events = {{5000, {"message", std::nullopt, line}}};
  return signals;
}

TEST(WorldSizeNotSet, IsFoundOfASplitModelStartedWithPython) {
  const auto findings = found_by(find_world_size_not_set, split_model(2));

  ASSERT_TRUE(is_one(findings, FindingCode::world_size_not_set, 0.45, 0.55));
  EXPECT_TRUE(is_stood_behind(findings.front()));
  EXPECT_THAT(findings.front().gpus, ElementsAre(0, 1));
  EXPECT_THAT(findings.front().pids, ElementsAre(4242));
}

TEST(WorldSizeNotSet, CostsOfDataParallelWhatTheGpusWait) {
  EXPECT_TRUE(is_one(found_by(find_world_size_not_set, data_parallel(4)),
                     FindingCode::world_size_not_set, 0.25, 0.35));
}

TEST(WorldSizeNotSet, IsFoundOfOneGpuBesideEmptyOnes) {
  const auto findings = found_by(find_world_size_not_set, alone(4));

  ASSERT_TRUE(is_one(findings, FindingCode::world_size_not_set, 0.75, 0.75));
  EXPECT_TRUE(is_stood_behind(findings.front()));
}

TEST(WorldSizeNotSet, IsNotSaidOfSpawnedChildren) {
  // Children set their rank after they start, which nobody sees: several processes with one parent.
  Signals signals = healthy_ranks(2);
  signals.jobs.front().spawned = true;
  for (ProcessSample& process : signals.jobs.front().processes) {
    process.rank = process.local_rank = process.world_size = std::nullopt;
    process.launcher = "python";
    process.environment.emplace();
    process.command = {"/usr/bin/python3", "-c", "from multiprocessing.spawn import spawn_main"};
  }

  EXPECT_THAT(found_by(find_world_size_not_set, signals), IsEmpty());
}

TEST(WorldSizeNotSet, IsNotSaidWhereALauncherStartedIt) {
  Signals launched = split_model(2);
  first_process(launched).launcher = "torchrun";
  Signals sized = split_model(2);
  first_process(sized).world_size = 1;

  EXPECT_THAT(found_by(find_world_size_not_set, launched), IsEmpty());
  EXPECT_THAT(found_by(find_world_size_not_set, sized), IsEmpty());
}

TEST(WorldSizeNotSet, IsNotSaidOfJaxServersOrOtherPrograms) {
  Signals jax = data_parallel(4);
  set_libraries(jax, {"jax"});
  Signals serving = split_model(2);
  serving.jobs.front().serves = true;
  Signals binary = split_model(2);
  first_process(binary).command = {"/opt/train_model"};

  for (const Signals& signals : {jax, serving, binary})
    EXPECT_THAT(found_by(find_world_size_not_set, signals), IsEmpty());
}

TEST(WorldSizeNotSet, IsNotSaidOfOneGpuOnPurpose) {
  Signals kept = alone(4);
  set_environment(kept, "CUDA_VISIBLE_DEVICES", "0");

  EXPECT_THAT(found_by(find_world_size_not_set, kept), IsEmpty());
  EXPECT_THAT(found_by(find_world_size_not_set, alone(1)), IsEmpty()) << "there is no other GPU";
}

TEST(WorldSizeNotSet, IsNotSaidWhereTheEnvironmentCannotBeRead) {
  Signals signals = split_model(2);
  first_process(signals).environment.reset();

  EXPECT_THAT(found_by(find_world_size_not_set, signals), IsEmpty()) << "another user's process";
}

TEST(EveryRankSaves, CostsAllButOneOfTheWriters) {
  const auto findings = found_by(find_every_rank_saves, saved_by(4, 0.08));

  ASSERT_TRUE(is_one(findings, FindingCode::every_rank_saves, 0.05, 0.07));
  EXPECT_TRUE(is_stood_behind(findings.front()));
  EXPECT_THAT(findings.front().ranks, ElementsAre(0, 1, 2, 3));
}

TEST(EveryRankSaves, IsNotSaidWhereTheFirstRankAloneDoes) {
  EXPECT_THAT(found_by(find_every_rank_saves, saved_by(1, 0.08)), IsEmpty());
  EXPECT_THAT(found_by(find_every_rank_saves, saved_by(0, 0)), IsEmpty());
  EXPECT_THAT(found_by(find_every_rank_saves, healthy_ranks(4)), IsEmpty())
      << "only step marks show it";
}

TEST(EveryRankSaves, IsSuspectedOnlyOfShardedCheckpoints) {
  Signals signals = saved_by(4, 0.08);
  set_libraries(signals, {"torch", "nccl", "deepspeed"});

  for (const Finding& finding : found_by(find_every_rank_saves, signals))
    EXPECT_FALSE(is_stood_behind(finding));
}

TEST(EveryRankSaves, IsSuspectedOnlyWhereRanksHoldDifferentMemory) {
  Signals signals = saved_by(4, 0.08);
  signals.jobs.front().memory_balance = 0.5;

  for (const Finding& finding : found_by(find_every_rank_saves, signals))
    EXPECT_FALSE(is_stood_behind(finding))
        << "ranks that hold different memory do not hold the same weights";
}

TEST(HarmfulEnvironment, IsFoundForALeftoverOfDebugging) {
  Signals signals = healthy_ranks(4);
  set_environment(signals, "CUDA_LAUNCH_BLOCKING", "1");

  const auto findings = found_by(find_harmful_environment, signals);

  ASSERT_TRUE(is_one(findings, FindingCode::harmful_environment, 0.05, 0.3));
  EXPECT_TRUE(is_stood_behind(findings.front()));
  EXPECT_THAT(findings.front().pids, ElementsAre(4242, 4243, 4244, 4245));
  EXPECT_THAT(findings.front().evidence.front().signal, HasSubstr("CUDA_LAUNCH_BLOCKING"));
}

TEST(HarmfulEnvironment, IsFoundWherePeerToPeerWorksAndIsSwitchedOff) {
  Signals signals = healthy_ranks(2);
  set_environment(signals, "NCCL_P2P_DISABLE", "1");

  EXPECT_TRUE(is_one(found_by(find_harmful_environment, signals), FindingCode::harmful_environment,
                     0.02, 0.3));
}

TEST(HarmfulEnvironment, IsNotSaidWherePeerToPeerDoesNotWorkAnyway) {
  using Pairs = std::vector<std::pair<int, int>>;
  for (const std::optional<Pairs>& pairs :
       {std::optional<Pairs>(), std::optional(Pairs{}), std::optional(Pairs{{2, 3}})}) {
    Signals signals = healthy_ranks(2);
    set_environment(signals, "NCCL_P2P_DISABLE", "1");
    signals.peer_to_peer = pairs;

    EXPECT_THAT(found_by(find_harmful_environment, signals), IsEmpty())
        << (pairs ? pairs->size() : 99) << " pairs";
  }
}

TEST(HarmfulEnvironment, IsNotSaidOfHarmlessValuesOrOfUnreadableProcesses) {
  Signals harmless = healthy_ranks(2);
  set_environment(harmless, "CUDA_LAUNCH_BLOCKING", "0");
  set_environment(harmless, "NCCL_DEBUG", "INFO");
  set_environment(harmless, "TORCH_DISTRIBUTED_DEBUG", "OFF");
  Signals one_gpu = alone(1);
  set_environment(one_gpu, "NCCL_SHM_DISABLE", "1");
  Signals unreadable = healthy_ranks(2);
  for (ProcessSample& process : unreadable.jobs.front().processes) process.environment.reset();

  EXPECT_THAT(found_by(find_harmful_environment, harmless), IsEmpty());
  EXPECT_THAT(found_by(find_harmful_environment, one_gpu), IsEmpty())
      << "one GPU exchanges nothing";
  EXPECT_THAT(found_by(find_harmful_environment, unreadable), IsEmpty());
}

TEST(CpuOversubscribed, IsFoundWhereProcessesWaitForACore) {
  const auto findings = found_by(find_cpu_oversubscribed, too_few_cores());

  ASSERT_TRUE(is_one(findings, FindingCode::cpu_oversubscribed, 0.1, 0.3));
  EXPECT_TRUE(is_stood_behind(findings.front()));
  EXPECT_THAT(findings.front().ranks, ElementsAre(0, 1, 2, 3));
}

TEST(CpuOversubscribed, IsNotSaidOfProcessesThatGetTheirCoreOrSleep) {
  Signals served = too_few_cores();
  served.jobs.front().host.main_cpu = 0.98;
  Signals sleeps = too_few_cores();
  sleeps.jobs.front().host.runnable = 0.6;

  EXPECT_THAT(found_by(find_cpu_oversubscribed, served), IsEmpty());
  EXPECT_THAT(found_by(find_cpu_oversubscribed, sleeps), IsEmpty());
}

TEST(CpuOversubscribed, IsNotSaidAfterFourLooksOrWithoutTheLoad) {
  Signals four_looks = too_few_cores();
  four_looks.jobs.front().host.looks = 4;
  Signals unknown = too_few_cores();
  unknown.jobs.front().host.main_cpu.reset();

  EXPECT_THAT(found_by(find_cpu_oversubscribed, four_looks), IsEmpty());
  EXPECT_THAT(found_by(find_cpu_oversubscribed, unknown), IsEmpty());
}

TEST(RanksMissing, IsFoundWhereFewerStartedThanPromised) {
  const auto findings = found_by(find_ranks_missing, one_rank_missing());

  ASSERT_TRUE(is_one(findings, FindingCode::ranks_missing, 0.9, 1));
  EXPECT_TRUE(is_stood_behind(findings.front()));
  EXPECT_THAT(findings.front().ranks, ElementsAre(0, 1, 2));
  EXPECT_EQ(evidence_of(findings.front(), "ranks_seen"), 3);
}

TEST(RanksMissing, IsFoundByWorldSizeWhereTheMasterIsHere) {
  Signals signals = one_rank_missing();
  for (ProcessSample& process : signals.jobs.front().processes) {
    process.environment->erase("LOCAL_WORLD_SIZE");
    process.world_size = 4;
  }

  EXPECT_EQ(found_by(find_ranks_missing, signals).size(), 1U);
}

TEST(RanksMissing, IsFoundOfRanksThatHaveNotBegun) {
  Signals signals = nothing_runs(2);
  set_environment(signals, "LOCAL_WORLD_SIZE", "4");

  EXPECT_TRUE(is_one(found_by(find_ranks_missing, signals), FindingCode::ranks_missing, 0.9, 1));
}

TEST(RanksMissing, IsFoundByWorldSizeAloneWhereNothingWorks) {
  Signals waits = nothing_runs(1);
  Signals works = alone(1);
  for (Signals* const signals : {&waits, &works})
    for (ProcessSample& process : signals->jobs.front().processes) {
      process.environment = {{"RANK", "0"}, {"WORLD_SIZE", "2"}};
      process.rank = 0;
      process.world_size = 2;
      signals->jobs.front().ranks = {0};
    }
  Signals two_nodes = waits;
  set_environment(two_nodes, "SLURM_NNODES", "2");

  EXPECT_TRUE(is_one(found_by(find_ranks_missing, waits), FindingCode::ranks_missing, 0.9, 1));
  EXPECT_THAT(found_by(find_ranks_missing, works), IsEmpty())
      << "the other rank may be on another machine";
  EXPECT_THAT(found_by(find_ranks_missing, two_nodes), IsEmpty());
}

TEST(RanksMissing, IsNotSaidOfAJobOverSeveralMachines) {
  Signals whole = healthy_ranks(4);
  Signals by_world_size = healthy_ranks(4);
  for (Signals* const signals : {&whole, &by_world_size}) {
    set_environment(*signals, "MASTER_ADDR", "node-0");
    set_environment(*signals, "WORLD_SIZE", "16");
    for (ProcessSample& process : signals->jobs.front().processes) process.world_size = 16;
  }
  for (ProcessSample& process : by_world_size.jobs.front().processes)
    process.environment->erase("LOCAL_WORLD_SIZE");

  EXPECT_THAT(found_by(find_ranks_missing, whole), IsEmpty());
  EXPECT_THAT(found_by(find_ranks_missing, by_world_size), IsEmpty());
}

TEST(RanksMissing, IsSuspectedOnlyWhereTheJobGetsOn) {
  Signals signals = one_rank_missing();
  draw_power(signals, 0.85);

  for (const Finding& finding : found_by(find_ranks_missing, signals))
    EXPECT_FALSE(is_stood_behind(finding));
}

TEST(RanksMissing, IsNotSaidOfPartialListsOrUnreadableProcesses) {
  Signals partial = one_rank_missing();
  partial.process_coverage = ProcessCoverage::partial;
  Signals unreadable = one_rank_missing();
  for (ProcessSample& process : unreadable.jobs.front().processes) process.environment.reset();

  EXPECT_THAT(found_by(find_ranks_missing, partial), IsEmpty()) << "absence proves nothing";
  EXPECT_THAT(found_by(find_ranks_missing, unreadable), IsEmpty());
}

TEST(LoggedMessages, AreFaultsWithTheirCodeAndTheirLine) {
  const std::string line = "RuntimeError: [Errno 98] EADDRINUSE: address already in use";

  const auto findings = found_by(find_logged_messages, with_message(line));

  ASSERT_TRUE(is_one(findings, FindingCode::port_in_use, 0, 0));
  EXPECT_TRUE(is_stood_behind(findings.front()));
  EXPECT_EQ(findings.front().evidence.front().signal, line);
}

TEST(LoggedMessages, WeighLessWhereTheRunWentOn) {
  Signals signals = with_message("B506 line 2: torch.OutOfMemoryError: CUDA out of memory.");
  EXPECT_EQ(found_by(find_logged_messages, signals).front().severity, Severity::critical);
  signals.events.push_back(signals.events.front());
  signals.events.back().event.detail = "B506 the run went on: 3 lines of its progress";

  const auto findings = found_by(find_logged_messages, signals);

  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings.front().severity, Severity::warning);
  EXPECT_EQ(findings.front().evidence.size(), 2U);
}

TEST(LoggedMessages, AreNotAnyLineOrAnyEvent) {
  Signals other_event = with_message("EADDRINUSE");
  other_event.events.front().event.kind = "slow_call";

  EXPECT_THAT(found_by(find_logged_messages, with_message("step 12: loss 0.7")), IsEmpty());
  EXPECT_THAT(found_by(find_logged_messages, other_event), IsEmpty());
  EXPECT_THAT(found_by(find_logged_messages, healthy_ranks(2)), IsEmpty());
}

TEST(CpuOversubscribed, IsWhatTheKernelCountedAsFarAsGpusWereEmpty) {
  Signals signals = healthy_ranks(4);
  JobSignals& job = signals.jobs.front();
  job.host.waiting_for_cpu = 0.4;
  for (GpuInJob& member : job.members) member.time = GpuTime{0.7, 0, 0.3, 0};
  job.time = JobTime{0.3, 0, true, true, 0};

  EXPECT_TRUE(is_one(found_by(find_cpu_oversubscribed, signals), FindingCode::cpu_oversubscribed,
                     0.29, 0.31));
  job.host.waiting_for_cpu = 0.02;
  EXPECT_TRUE(found_by(find_cpu_oversubscribed, signals).empty()) << "cores are free";
}

TEST(CpuOversubscribed, IsToldOfAJobThatNeverComesToItsGpus) {
  Signals signals = nothing_runs(2);
  signals.jobs.front().host.waiting_for_cpu = 0.8;

  const auto findings = found_by(find_cpu_oversubscribed, signals);

  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings.front().severity, Severity::critical);
  EXPECT_NEAR(findings.front().lost_throughput, 0.8, 1e-9);
}

}  // namespace
}  // namespace lockstep
