#include "detectors/split/pattern.hpp"

#include "unit/detectors/finding_checks.hpp"

namespace lockstep {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

Verdict judged(const Signals& signals) {
  return judge_pattern(signals.jobs.front(), signals).verdict;
}

// One rank per GPU whose lanes alternate.
Signals ranks_in_turns(int gpus) {
  Signals signals = split_model(gpus);
  JobSignals& job = signals.jobs.front();
  const JobSignals ranks = healthy_ranks(gpus).jobs.front();
  job.processes = ranks.processes;
  job.pids = ranks.pids;
  job.ranks = ranks.ranks;
  job.one_process_on_all = false;
  return signals;
}

// Turns shorter than the window: every GPU reads a steady share.
Signals turns_too_fast_to_see(int gpus) {
  Signals signals = seen_by_busy_alone(split_model(gpus));
  JobSignals& job = signals.jobs.front();
  job.fine->exclusive_busy = 0.05;
  job.fine->exclusive_by_chance = 0.05;
  job.fine->together = 0.05;
  job.fine->opposed = 0;
  job.fine->swing = 0.03;
  job.fine->hand_overs = job.fine->hand_backs = job.fine->blocks_exclusive = 0;
  job.second_busy = 1.0 / gpus;
  return signals;
}

// One process that drives all GPUs alike, as JAX does.
Signals one_even_process(int gpus) {
  Signals signals = data_parallel(gpus);
  JobSignals& job = signals.jobs.front();
  job.memory_balance = job.memory_lead = job.replica_balance = 1.0;
  return signals;
}

TEST(InStep, IsSaidOfDataParallelRanks) {
  for (const int gpus : {2, 4, 8}) {
    const Verdict verdict = judged(healthy_ranks(gpus));

    EXPECT_EQ(verdict.pattern, Pattern::in_step) << verdict.sentence;
    EXPECT_GE(verdict.confidence, 0.9);
    EXPECT_THAT(verdict.sentence, AllOf(HasSubstr("in step"), HasSubstr("97 %")));
  }
}

TEST(InStep, IsSaidOfRanksByUtilizationAlone) {
  const Verdict verdict = judged(seen_by_busy_alone(healthy_ranks(4)));

  EXPECT_EQ(verdict.pattern, Pattern::in_step) << verdict.sentence;
  EXPECT_GE(verdict.confidence, 0.7);
}

TEST(InStep, IsSaidWithoutAProcessListWhereTheLanesMoveTogether) {
  const Verdict verdict = judged(without_processes(healthy_ranks(2)));

  EXPECT_EQ(verdict.pattern, Pattern::in_step) << verdict.sentence;
}

TEST(InStep, IsSaidOfOneJaxProcess) {
  Signals signals = one_even_process(4);
  set_libraries(signals, {"jax", "nccl"});

  const Verdict verdict = judged(signals);

  EXPECT_EQ(verdict.pattern, Pattern::in_step) << verdict.sentence;
}

TEST(TakingTurns, IsSaidWherePowerSamplesAlternate) {
  for (const int gpus : {2, 4, 8}) {
    const Verdict verdict = judged(split_model(gpus));

    EXPECT_EQ(verdict.pattern, Pattern::taking_turns) << verdict.sentence;
    EXPECT_GE(verdict.confidence, 0.9);
    EXPECT_THAT(verdict.sentence, AllOf(HasSubstr("take turns"), HasSubstr("95 %")));
  }
}

TEST(TakingTurns, IsSaidOfOneProcessByUtilizationAlone) {
  Signals signals = seen_by_busy_alone(split_model(2));
  signals.tick_ms = 1000;

  EXPECT_EQ(judged(signals).pattern, Pattern::taking_turns);
}

TEST(TakingTurns, IsSaidByUtilizationWherePowerSamplesShowNoSwing) {
  Signals signals = split_model(2);
  signals.jobs.front().fine->swing = 0.03;
  signals.jobs.front().coarse->exclusive_busy = 0.9;

  const Verdict verdict = judged(signals);

  EXPECT_EQ(verdict.pattern, Pattern::taking_turns) << verdict.sentence;
  EXPECT_THAT(verdict.sentence, HasSubstr("90 %"))
      << "the lanes that showed it are the ones quoted";
}

TEST(TakingTurns, IsSaidOfRanksWhosePowerAlternates) {
  const Verdict verdict = judged(ranks_in_turns(2));

  EXPECT_EQ(verdict.pattern, Pattern::taking_turns) << verdict.sentence;
  EXPECT_LE(verdict.confidence, 0.9)
      << "several processes are less likely to be parts of one model";
}

TEST(TakingTurns, IsSaidOfRanksByUtilizationWherePlainPowerFollows) {
  Signals signals = seen_by_busy_alone(ranks_in_turns(2));
  signals.jobs.front().work_power_turns = 0.7;

  const Verdict verdict = judged(signals);

  EXPECT_EQ(verdict.pattern, Pattern::taking_turns) << verdict.sentence;
  EXPECT_LT(verdict.confidence, 0.8);
}

TEST(TakingTurns, IsSaidWithoutAProcessListWherePowerSamplesAlternate) {
  EXPECT_EQ(judged(without_processes(split_model(2))).pattern, Pattern::taking_turns);
}

TEST(TakingTurns, IsNotSaidOfRanksByUtilizationAlone) {
  Signals signals = seen_by_busy_alone(ranks_in_turns(2));
  signals.jobs.front().work_power_turns.reset();

  const Verdict verdict = judged(signals);

  EXPECT_EQ(verdict.pattern, Pattern::unclear);
  EXPECT_THAT(verdict.sentence, HasSubstr("power samples or SM activity"))
      << "the signal that would decide";
}

TEST(TakingTurns, IsNotSaidOfRanksThatSpin) {
  // 100/7, then 6/100, for hours: they wait for each other in NCCL, and power stays low on both.
  Signals signals = seen_by_busy_alone(ranks_in_turns(2));
  signals.jobs.front().work_power_turns = 0.1;
  signals.jobs.front().busy_sum = 1.07;

  EXPECT_NE(judged(signals).pattern, Pattern::taking_turns);
}

TEST(TakingTurns, IsNotSaidWhereBusyIsHollow) {
  Signals signals = ranks_in_turns(2);
  load_gpu(signals, 0, 0.55, 0.85);
  load_gpu(signals, 1, 0.52, 0.85);

  EXPECT_NE(judged(signals).pattern, Pattern::taking_turns)
      << "a GPU that waits for its turn runs no kernel";
}

TEST(TakingTurns, IsNotSaidOfOneProcessWhoseGpusSpin) {
  Signals signals = split_model(2);
  load_gpu(signals, 0, 0.6, 0.6);
  load_gpu(signals, 1, 0.6, 0.6);
  signals.jobs.front().busy_sum = signals.jobs.front().second_busy = 1.3;

  EXPECT_NE(judged(signals).pattern, Pattern::taking_turns);
}

TEST(TakingTurns, IsNotSaidOfLoadingOneAfterTheOther) {
  Signals signals = ranks_in_turns(4);
  signals.jobs.front().fine->hand_overs = 3;
  signals.jobs.front().fine->hand_backs = 0;

  EXPECT_NE(judged(signals).pattern, Pattern::taking_turns) << "the work never came back to a GPU";
}

TEST(TakingTurns, IsNotSaidWhereAllReadBusy) {
  Signals signals = ranks_in_turns(2);
  signals.jobs.front().busy_sum = 1.9;

  EXPECT_NE(judged(signals).pattern, Pattern::taking_turns);
}

TEST(TakingTurns, IsSaidBySumAtLowConfidenceWhereTurnsAreTooFast) {
  for (const double tick_ms : {1000.0, 5000.0}) {
    Signals signals = turns_too_fast_to_see(4);
    signals.tick_ms = tick_ms;

    const Verdict verdict = judged(signals);

    EXPECT_EQ(verdict.pattern, Pattern::taking_turns) << verdict.sentence;
    EXPECT_GE(verdict.confidence, 0.5);
    EXPECT_LE(verdict.confidence, 0.75);
    EXPECT_THAT(verdict.sentence, HasSubstr("98 %"));
  }
}

TEST(TakingTurns, IsNotSaidBySumOfSeveralProcesses) {
  Signals signals = turns_too_fast_to_see(4);
  signals.jobs.front().one_process_on_all = false;

  EXPECT_NE(judged(signals).pattern, Pattern::taking_turns)
      << "ranks that wait for data read the same";
}

TEST(TakingTurns, IsNotSaidBySumWhereOnlyOneGpuWorks) {
  Signals signals = turns_too_fast_to_see(4);
  signals.jobs.front().second_busy = 0.01;

  EXPECT_NE(judged(signals).pattern, Pattern::taking_turns);
}

TEST(OneLeads, IsSaidOfDataParallel) {
  for (const int gpus : {2, 4}) {
    const Verdict verdict = judged(data_parallel(gpus));

    EXPECT_EQ(verdict.pattern, Pattern::one_leads) << verdict.sentence;
    EXPECT_GE(verdict.confidence, 0.85);
    EXPECT_THAT(verdict.sentence, HasSubstr("GPU 0 leads"));
  }
}

TEST(OneLeads, IsNotSaidOfOneProcessThatDrivesThemEvenly) {
  Signals signals = one_even_process(4);
  signals.jobs.front().fine->together = 0.9;

  EXPECT_EQ(judged(signals).pattern, Pattern::in_step);
}

TEST(OneLeads, IsNotSaidWhereTheOthersAreNoReplicas) {
  Signals signals = split_model(4);
  signals.jobs.front().memory_lead = 1.6;
  signals.jobs.front().replica_balance = 0.4;

  EXPECT_EQ(judged(signals).pattern, Pattern::taking_turns)
      << "parts of a split model differ in memory as well";
}

TEST(PipelinePattern, IsSaidWhereStagesFillAndDrain) {
  const Verdict verdict = judged(pipeline_of(4));

  EXPECT_EQ(verdict.pattern, Pattern::pipeline) << verdict.sentence;
  EXPECT_THAT(verdict.sentence, HasSubstr("80 %")) << "how much they overlap";
}

TEST(PipelinePattern, IsSaidOfTwoStagesOnlyWhereTheyAreKnownToBeOneJob) {
  Signals signals = pipeline_of(2);
  signals.jobs.front().fine->exclusive_by_chance = 0.17;
  signals.jobs.front().fine->together = 0.05;
  Signals in_step = signals;
  in_step.jobs.front().fine->together = 0.3;

  EXPECT_EQ(judged(signals).pattern, Pattern::pipeline);
  EXPECT_NE(judged(in_step).pattern, Pattern::pipeline);
  EXPECT_NE(judged(without_processes(signals)).pattern, Pattern::pipeline)
      << "too near to chance to tell from strangers";
}

TEST(PipelinePattern, IsNotSaidOfRanksWhoseMarksShowGradientsAveraged) {
  Signals signals = pipeline_of(4);
  StepSignals steps;
  steps.count = 20;
  for (int rank = 0; rank < 4; ++rank) steps.ranks.push_back({.rank = rank, .count = 20});
  signals.jobs.front().steps = steps;
  const Pattern without_overlap = judged(signals).pattern;
  signals.jobs.front().steps->present[5] = 0.9;  // collective_hidden

  EXPECT_EQ(without_overlap, Pattern::pipeline);
  EXPECT_NE(judged(signals).pattern, Pattern::pipeline);
}

TEST(PipelinePattern, IsNotSaidWhereOneIsAloneNoMoreOftenThanByChance) {
  Signals signals = pipeline_of(4);
  signals.jobs.front().fine->exclusive_by_chance = 0.18;
  signals.jobs.front().fine->together = 0.65;

  EXPECT_NE(judged(signals).pattern, Pattern::pipeline);
}

TEST(PipelinePattern, IsNotSaidOfALateRank) {
  Signals signals = pipeline_of(4);
  load_gpu(signals, 2, 0.6, 0.02);

  EXPECT_NE(judged(signals).pattern, Pattern::pipeline) << "stages are equally busy";
}

TEST(PipelinePattern, IsNotSaidOfRanksThatSpin) {
  Signals signals = pipeline_of(4);
  for (const int gpu : {0, 1, 2, 3}) load_gpu(signals, gpu, 0.98, 0.6);

  EXPECT_NE(judged(signals).pattern, Pattern::pipeline);
}

TEST(PipelinePattern, IsNotSaidByUtilizationAlone) {
  EXPECT_NE(judged(seen_by_busy_alone(pipeline_of(4))).pattern, Pattern::pipeline);
}

TEST(SingleGpu, IsSaidOfAJobWithOneGpu) {
  const Signals signals = alone(4);

  const Verdict verdict = judged(signals);

  EXPECT_EQ(verdict.pattern, Pattern::single_gpu);
  EXPECT_GT(verdict.confidence, judged(without_processes(signals)).confidence)
      << "a process list makes it surer";
}

TEST(Idle, IsSaidWhereProcessesHoldGpusAndNothingRuns) {
  const Verdict verdict = judged(nothing_runs(2));

  EXPECT_EQ(verdict.pattern, Pattern::idle);
  EXPECT_EQ(verdict.sentence, "GPU 0 and 1 do nothing.");
}

TEST(Idle, IsNotSaidWhereBusyWasNeverRead) {
  // The driver has no utilization for a MIG slice: not read is not 0.
  Signals signals = nothing_runs(2);
  for (GpuInJob& member : signals.jobs.front().members) member.busy = member.work = std::nullopt;

  EXPECT_NE(judged(signals).pattern, Pattern::idle);
}

TEST(Idle, IsNotSaidOfALogWithoutUtilization) {
  Signals signals = nothing_runs(2);
  signals.jobs.clear();
  for (GpuSignals& gpu : signals.gpus) {
    gpu.busy_highest.reset();
    gpu.power_highest_mw = 300'000;
  }

  const Verdict working = judge_machine(signals, {}).verdict;
  EXPECT_EQ(working.pattern, Pattern::unclear);
  EXPECT_EQ(working.sentence,
            "Utilization is not in the input; GPU 0 and 1 draw more than 130 W, as a GPU without "
            "work hardly does.");

  for (GpuSignals& gpu : signals.gpus) gpu.power_highest_mw = 75'000;
  EXPECT_EQ(judge_machine(signals, {}).verdict.pattern, Pattern::unclear);

  for (GpuSignals& gpu : signals.gpus) gpu.busy_highest = 0;
  EXPECT_EQ(judge_machine(signals, {}).verdict.pattern, Pattern::idle);
}

TEST(Unclear, IsSaidOfASnapshotOrThree) {
  Signals signals = split_model(2);
  signals.ticks = 3;

  const Verdict verdict = judged(signals);

  EXPECT_EQ(verdict.pattern, Pattern::unclear);
  EXPECT_THAT(verdict.sentence, HasSubstr("more readings"));
}

TEST(Unclear, IsNotSaidAfterFiveReadings) {
  Signals signals = split_model(2);
  signals.ticks = 5;

  EXPECT_EQ(judged(signals).pattern, Pattern::taking_turns);
}

TEST(Unclear, IsSaidWhereTheGpusWereNeverReadAtOnce) {
  Signals signals = healthy_ranks(2);
  signals.jobs.front().fine.reset();

  const Verdict verdict = judged(signals);

  EXPECT_EQ(verdict.pattern, Pattern::unclear);
  EXPECT_THAT(verdict.sentence, HasSubstr("record longer"));
}

TEST(Unclear, IsSaidOfGpusThatDifferAndHaveNoProcessList) {
  Signals signals = without_processes(seen_by_busy_alone(healthy_ranks(2)));
  signals.jobs.front().memory_balance = 0.3;

  const Verdict verdict = judged(signals);

  EXPECT_EQ(verdict.pattern, Pattern::unclear) << "two users' jobs are busy at once as well";
  EXPECT_THAT(verdict.sentence, HasSubstr("process list"));
}

TEST(Unclear, IsSaidOfFastTurnsWithoutAProcessList) {
  const Verdict verdict = judged(without_processes(turns_too_fast_to_see(2)));

  EXPECT_EQ(verdict.pattern, Pattern::unclear);
  EXPECT_THAT(verdict.sentence, AllOf(HasSubstr("process list"), HasSubstr("power samples")));
}

TEST(Unclear, IsSaidOfUtilizationInTurnsWithoutProcessesOrPower) {
  Signals signals = without_processes(seen_by_busy_alone(split_model(2)));
  signals.jobs.front().work_power_turns.reset();

  const Verdict verdict = judged(signals);

  EXPECT_EQ(verdict.pattern, Pattern::unclear);
  EXPECT_THAT(verdict.sentence, HasSubstr("process list"));
}

TEST(Unclear, IsSaidOfOneProcessThatShowsNeitherLeadNorTurns) {
  Signals signals = one_even_process(4);
  signals.jobs.front().fine->together = 0.4;

  const Verdict verdict = judged(signals);

  EXPECT_EQ(verdict.pattern, Pattern::unclear);
  EXPECT_THAT(verdict.sentence, HasSubstr("trace"));
}

TEST(GpuNames, AreShortForRunsAndWholeOtherwise) {
  EXPECT_EQ(gpu_names({}), "no GPU");
  EXPECT_EQ(gpu_names({3}), "GPU 3");
  EXPECT_EQ(gpu_names({0, 1}), "GPU 0 and 1");
  EXPECT_EQ(gpu_names({2, 3, 4, 5}), "GPU 2 to 5");
  EXPECT_EQ(gpu_names({0, 2, 5}), "GPU 0, 2 and 5");
}

}  // namespace
}  // namespace lockstep
