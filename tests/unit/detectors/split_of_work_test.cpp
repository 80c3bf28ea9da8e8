// P101 to P106: how the work is split over the GPUs.
#include "unit/detectors/finding_checks.hpp"

namespace lockstep {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// torchrun with two ranks on a machine with four GPUs.
Signals two_ranks_of_four() {
  Signals signals = healthy_ranks(2);
  const Signals machine = alone(4);
  signals.gpus.push_back(machine.gpus[2]);
  signals.gpus.push_back(machine.gpus[3]);
  signals.free_gpus = {2, 3};
  return signals;
}

TEST(TakingTurnsFinding, CostsHalfOfTwoGpusAndThreeQuartersOfFour) {
  const auto of_two = found_by(find_taking_turns, split_model(2));
  const auto of_four = found_by(find_taking_turns, split_model(4));

  ASSERT_TRUE(is_one(of_two, FindingCode::taking_turns, 0.45, 0.5));
  ASSERT_TRUE(is_one(of_four, FindingCode::taking_turns, 0.7, 0.75));
  EXPECT_THAT(of_four.front().gpus, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(of_four.front().pids, ElementsAre(4242));
  EXPECT_EQ(of_four.front().severity, Severity::critical);
}

TEST(TakingTurnsFinding, CostsLessWhereTheJobIsOftenIdle) {
  Signals signals = split_model(2);
  signals.jobs.front().busy_sum = 0.5;
  signals.jobs.front().fine->any_active = 0.5;

  EXPECT_TRUE(is_one(found_by(find_taking_turns, signals), FindingCode::taking_turns, 0.2, 0.3));
}

TEST(TakingTurnsFinding, IsNotRaisedByOtherPatterns) {
  EXPECT_THAT(found_by(find_taking_turns, data_parallel(2)), IsEmpty());
  EXPECT_THAT(found_by(find_taking_turns, pipeline_of(4)), IsEmpty());
  EXPECT_THAT(found_by(find_taking_turns, healthy_ranks(4)), IsEmpty());
}

TEST(TakingTurnsFinding, IsNotRaisedByAServer) {
  Signals signals = split_model(2);
  signals.jobs.front().serves = true;

  EXPECT_THAT(found_by(find_taking_turns, signals), IsEmpty());
}

TEST(TakingTurnsFinding, IsNotRaisedWithoutLanes) {
  Signals signals = split_model(2);
  signals.jobs.front().fine.reset();
  signals.jobs.front().coarse.reset();

  EXPECT_THAT(found_by(find_taking_turns, signals), IsEmpty());
}

TEST(OneGpuLeads, CostsTheTimeInWhichTheReplicasWait) {
  const auto findings = found_by(find_one_gpu_leads, data_parallel(4));

  ASSERT_TRUE(is_one(findings, FindingCode::one_gpu_leads, 0.25, 0.35));
  EXPECT_THAT(findings.front().gpus, ElementsAre(0, 1, 2, 3));
  EXPECT_NEAR(evidence_of(findings.front(), "memory_lead"), 0.72 / 0.35, 0.01);
}

TEST(OneGpuLeads, IsNotRaisedByASplitModelJaxOrServers) {
  Signals jax = data_parallel(4);
  jax.jobs.front().memory_lead = 1.0;
  set_libraries(jax, {"jax"});
  Signals serving = data_parallel(4);
  serving.jobs.front().serves = true;

  EXPECT_THAT(found_by(find_one_gpu_leads, split_model(4)), IsEmpty());
  EXPECT_THAT(found_by(find_one_gpu_leads, jax), IsEmpty());
  EXPECT_THAT(found_by(find_one_gpu_leads, serving), IsEmpty());
  EXPECT_THAT(found_by(find_one_gpu_leads, healthy_ranks(4)), IsEmpty());
}

TEST(OneGpuLeads, IsNotRaisedWhereNeitherMemoryNorProcessesAreKnown) {
  Signals signals = without_processes(data_parallel(4));
  JobSignals& job = signals.jobs.front();
  job.memory_balance = job.memory_lead = job.replica_balance = std::nullopt;

  EXPECT_THAT(found_by(find_one_gpu_leads, signals), IsEmpty());
}

TEST(IdleGpus, AreNamedBesideAJobThatUsesOne) {
  const auto findings = found_by(find_idle_gpus, alone(4));

  ASSERT_TRUE(is_one(findings, FindingCode::idle_gpus, 0.75, 0.75));
  EXPECT_THAT(findings.front().gpus, ElementsAre(1, 2, 3));
  EXPECT_THAT(findings.front().pids, ElementsAre(4242)) << "the job that could use them";
  EXPECT_GE(findings.front().confidence, 0.8);
}

TEST(IdleGpus, AreThoseOfTheJobsOwnMachine) {
  Signals signals = alone(4);
  for (GpuSignals& gpu : signals.gpus) gpu.info.host = gpu.index < 2 ? "node1" : "node2";

  const auto findings = found_by(find_idle_gpus, signals);

  ASSERT_TRUE(is_one(findings, FindingCode::idle_gpus, 0.5, 0.5));
  EXPECT_THAT(findings.front().gpus, ElementsAre(1))
      << "another machine's are no place for a process of this one";
}

TEST(IdleGpus, AreSuspectedOnlyWhereTheJobIsKeptToItsOwn) {
  Signals by_variable = alone(4);
  set_environment(by_variable, "CUDA_VISIBLE_DEVICES", "0");
  Signals by_scheduler = alone(4);
  set_environment(by_scheduler, "SLURM_JOB_ID", "77");

  for (const Signals& signals : {by_variable, by_scheduler}) {
    const auto findings = found_by(find_idle_gpus, signals);

    ASSERT_TRUE(is_one(findings, FindingCode::idle_gpus, 0.5, 0.8));
    EXPECT_FALSE(is_stood_behind(findings.front()));
  }
}

TEST(IdleGpus, AreSuspectedOnlyWhereAVariableKeepsTorchrunToItsGpus) {
  Signals signals = two_ranks_of_four();
  set_environment(signals, "CUDA_VISIBLE_DEVICES", "0,1");

  const auto findings = found_by(find_idle_gpus, signals);

  ASSERT_TRUE(is_one(findings, FindingCode::idle_gpus, 0.5, 0.5));
  EXPECT_FALSE(is_stood_behind(findings.front()))
      << "somebody gave this job two GPUs, ranks or not";
}

TEST(IdleGpus, AreNamedThoughALauncherGivesEachRankOne) {
  Signals signals = two_ranks_of_four();
  for (ProcessSample& process : signals.jobs.front().processes)
    (*process.environment)["CUDA_VISIBLE_DEVICES"] = std::to_string(*process.local_rank);

  const auto findings = found_by(find_idle_gpus, signals);

  ASSERT_EQ(findings.size(), 1U);
  EXPECT_TRUE(is_stood_behind(findings.front()));
}

TEST(IdleGpus, AreNotNamedWhereNothingTrains) {
  Signals idle = nothing_runs(2);
  idle.free_gpus = {2, 3};
  Signals serving = server(2);
  serving.free_gpus = {2, 3};
  Signals one_look = alone(4);
  one_look.ticks = 1;

  EXPECT_THAT(found_by(find_idle_gpus, idle), IsEmpty());
  EXPECT_THAT(found_by(find_idle_gpus, serving), IsEmpty());
  EXPECT_THAT(found_by(find_idle_gpus, one_look), IsEmpty()) << "one look is not the whole run";
  EXPECT_THAT(found_by(find_idle_gpus, healthy_ranks(4)), IsEmpty());
}

TEST(IdleGpus, AreSuspectedOnlyAfterAFewSnapshots) {
  Signals few = alone(4);
  few.ticks = 6;
  Signals enough = alone(4);
  enough.ticks = 9;

  EXPECT_FALSE(is_stood_behind(found_by(find_idle_gpus, few).at(0)));
  EXPECT_TRUE(is_stood_behind(found_by(find_idle_gpus, enough).at(0)));
}

TEST(IdleGpus, AreLessSureWithAPartialProcessList) {
  Signals partial = alone(4);
  partial.process_coverage = ProcessCoverage::partial;

  const auto findings = found_by(find_idle_gpus, partial);

  ASSERT_EQ(findings.size(), 1U);
  EXPECT_LT(findings.front().confidence, found_by(find_idle_gpus, alone(4)).front().confidence);
}

TEST(RanksShareAGpu, IsFoundWhereEveryRankUsesTheFirst) {
  Signals signals = healthy_ranks(4);
  for (ProcessSample& process : signals.jobs.front().processes)
    process.gpus = {{0, 15'000'000'000}};

  const auto findings = found_by(find_ranks_share_a_gpu, signals);

  ASSERT_TRUE(is_one(findings, FindingCode::ranks_share_a_gpu, 0.75, 0.75));
  EXPECT_THAT(findings.front().gpus, ElementsAre(0));
  EXPECT_THAT(findings.front().ranks, ElementsAre(0, 1, 2, 3));
}

TEST(RanksShareAGpu, IsFoundForChildrenOfSpawnWithoutARank) {
  Signals signals = healthy_ranks(2);
  for (ProcessSample& process : signals.jobs.front().processes) {
    process.gpus = {{1, 15'000'000'000}};
    process.rank = process.local_rank = process.world_size = std::nullopt;
    process.command = {"python3", "-c",
                       "from multiprocessing.spawn import spawn_main; spawn_main()"};
  }

  const auto findings = found_by(find_ranks_share_a_gpu, signals);

  ASSERT_TRUE(is_one(findings, FindingCode::ranks_share_a_gpu, 0.5, 0.5));
  EXPECT_THAT(findings.front().gpus, ElementsAre(1));
}

TEST(RanksShareAGpu, IsNotSaidOfTheSmallContextOnTheFirstGpu) {
  Signals signals = healthy_ranks(4);
  for (ProcessSample& process : signals.jobs.front().processes)
    process.gpus.insert(process.gpus.begin(), {0, 500'000'000});

  EXPECT_THAT(found_by(find_ranks_share_a_gpu, signals), IsEmpty());
}

TEST(RanksShareAGpu, IsNotSaidWhereTheMemoryOfTheContextsIsUnknown) {
  Signals signals = healthy_ranks(4);
  for (ProcessSample& process : signals.jobs.front().processes)
    if (*process.rank > 0) process.gpus = {{0, std::nullopt}, {*process.rank, std::nullopt}};

  EXPECT_THAT(found_by(find_ranks_share_a_gpu, signals), IsEmpty())
      << "unknown memory does not say which GPU is the main one";
}

TEST(RanksShareAGpu, IsNotSaidOfRanksOrOfAParentThatHoldsAGpuToo) {
  Signals parent = healthy_ranks(2);
  parent.jobs.front().processes.push_back(parent.jobs.front().processes.front());
  parent.jobs.front().processes.back().rank.reset();

  EXPECT_THAT(found_by(find_ranks_share_a_gpu, parent), IsEmpty());
  EXPECT_THAT(found_by(find_ranks_share_a_gpu, healthy_ranks(8)), IsEmpty());
}

TEST(UnsynchronisedCopies, AreEqualCommandLinesWithoutARank) {
  const auto findings = found_by(find_unsynchronised_copies, copies_by_hand(4));

  ASSERT_TRUE(is_one(findings, FindingCode::unsynchronised_copies, 0.75, 0.75));
  EXPECT_THAT(findings.front().gpus, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(findings.front().pids, ElementsAre(4242, 4243, 4244, 4245));
}

TEST(UnsynchronisedCopies, LeaveAnotherScriptOut) {
  Signals signals = copies_by_hand(3);
  signals.jobs[1].processes.front().command = {"python", "evaluate.py"};

  const auto findings = found_by(find_unsynchronised_copies, signals);

  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings.front().gpus, ElementsAre(0, 2));
}

TEST(UnsynchronisedCopies, AreNoSweepNoServersAndNoRanks) {
  Signals sweep = copies_by_hand(2);
  sweep.jobs[1].processes.front().command->back() = "64";
  Signals servers = copies_by_hand(2);
  for (JobSignals& job : servers.jobs) job.serves = true;
  Signals ranks = copies_by_hand(2);
  for (JobSignals& job : ranks.jobs) job.processes.front().rank = job.gpus.front();
  Signals launched = copies_by_hand(2);
  for (JobSignals& job : launched.jobs) job.processes.front().launcher = "mpirun";

  for (const Signals& signals : {sweep, servers, ranks, launched})
    EXPECT_THAT(found_by(find_unsynchronised_copies, signals), IsEmpty());
}

TEST(UnsynchronisedCopies, AreNotSaidWhereCommandLinesCannotBeRead) {
  Signals signals = copies_by_hand(2);
  for (JobSignals& job : signals.jobs) job.processes.front().command.reset();

  EXPECT_THAT(found_by(find_unsynchronised_copies, signals), IsEmpty());
}

TEST(PipelineBubbles, CostTheTimeInWhichAStageStandsStill) {
  const auto findings = found_by(find_pipeline_bubbles, pipeline_of(4));

  ASSERT_TRUE(is_one(findings, FindingCode::pipeline_bubbles, 0.2, 0.28));
  EXPECT_THAT(findings.front().ranks, ElementsAre(0, 1, 2, 3));
}

TEST(PipelineBubbles, AreNamedAtFourteenPercent) {
  Signals signals = pipeline_of(4);
  for (const int gpu : {0, 1, 2, 3}) load_gpu(signals, gpu, 0.86, 0.05);

  EXPECT_TRUE(
      is_one(found_by(find_pipeline_bubbles, signals), FindingCode::pipeline_bubbles, 0.13, 0.15));
}

TEST(PipelineBubbles, AreNotWorthNamingAtNinePercent) {
  Signals signals = pipeline_of(4);
  for (const int gpu : {0, 1, 2, 3}) load_gpu(signals, gpu, 0.91, 0.05);

  ASSERT_EQ(judge_patterns(signals).front().verdict.pattern, Pattern::pipeline);
  EXPECT_THAT(found_by(find_pipeline_bubbles, signals), IsEmpty())
      << "four stages and 32 micro-batches are good practice";
}

TEST(PipelineBubbles, AreNoTurnsAndNoSteps) {
  Signals without_lanes = pipeline_of(4);
  without_lanes.jobs.front().fine.reset();

  EXPECT_THAT(found_by(find_pipeline_bubbles, split_model(4)), IsEmpty());
  EXPECT_THAT(found_by(find_pipeline_bubbles, healthy_ranks(4)), IsEmpty());
  EXPECT_THAT(found_by(find_pipeline_bubbles, without_lanes), IsEmpty());
}

// Two programs that both train on GPU 0.
Signals two_on_one() {
  Signals signals = copies_by_hand(2);
  for (JobSignals& job : signals.jobs) {
    job.gpus = {0};
    job.members.front().index = 0;
    job.members.front().busy = 1;
    job.host.main_cpu = 1;
    for (ProcessSample& process : job.processes) process.gpus = {{0, 20'000'000'000}};
  }
  return signals;
}

TEST(GpuHeldByOthers, IsTwoProgramsThatComputeOnOneGpu) {
  const Signals signals = two_on_one();
  const auto findings = found_by(find_gpu_held_by_others, signals);
  ASSERT_TRUE(is_one(findings, FindingCode::gpu_held_by_others, 0.5, 0.5));
  EXPECT_THAT(findings.front().gpus, ElementsAre(0));
  EXPECT_EQ(findings.front().pids.size(), 2U);
  EXPECT_THAT(found_by(find_unsynchronised_copies, signals), IsEmpty())
      << "torchrun on two GPUs is no answer to one";
}

TEST(GpuHeldByOthers, IsNotAProgramThatRestsNorOneOnAnotherGpu) {
  Signals notebook = two_on_one();
  notebook.jobs[1].host.main_cpu = 0.01;
  EXPECT_THAT(found_by(find_gpu_held_by_others, notebook), IsEmpty());
  Signals context = two_on_one();
  for (ProcessSample& process : context.jobs[1].processes) process.gpus = {{0, 500'000'000}};
  EXPECT_THAT(found_by(find_gpu_held_by_others, context), IsEmpty());
  EXPECT_THAT(found_by(find_gpu_held_by_others, copies_by_hand(2)), IsEmpty());
}

}  // namespace
}  // namespace lockstep
