// Findings from the GPUs' own records: for each a positive, a near miss, and a healthy run.
#include "detectors/trace/trace_detectors.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "detectors/diagnosis.hpp"

namespace lockstep {
namespace {

// Two ranks that work well: 97 % busy, gradients under the backward pass.
Signals healthy_trace() {
  Signals signals;
  JobSignals job;
  job.gpus = {0, 1};
  job.ranks = {0, 1};
  job.active = true;
  signals.jobs.push_back(job);
  TraceSignals trace;
  trace.steps = 5;
  trace.step_ms = 100;
  trace.captured_s = 0.5;
  trace.collectives = 20;
  trace.has_tensor_cores = true;
  trace.tensor_core_share = 0.6;
  trace.waits_recorded = true;
  trace.ranks_together = 0.9;
  trace.kernels_a_step = 800;
  trace.kernel_p50_us = 40;
  for (int rank = 0; rank < 2; ++rank) {
    TraceRankSignals one;
    one.rank = rank;
    one.gpus = {rank};
    one.busy = 0.97;
    one.computes = 0.93;
    one.exposed_communication = 0.03;
    one.idle[index_of(StepPart::forward)] = 0.02;
    one.late_share = 0.5;
    trace.ranks.push_back(one);
    RankBreakdown breakdown;
    breakdown.rank = rank;
    breakdown.communication_us = 30'000;
    breakdown.overlap = 0.9;
    trace.breakdown.ranks.push_back(breakdown);
  }
  trace.removable_launches = 0.02;
  trace.removable_collectives = 0.02;
  signals.trace = trace;
  return signals;
}

const Finding* find(const std::vector<Finding>& findings, FindingCode code) {
  const auto found =
      std::ranges::find_if(findings, [&](const Finding& finding) { return finding.code == code; });
  return found == findings.end() ? nullptr : &*found;
}

TEST(TraceFindings, AreNoneInAHealthyRun) {
  const Diagnosis diagnosis = diagnose(healthy_trace());

  EXPECT_TRUE(diagnosis.findings.empty());
  EXPECT_TRUE(diagnosis.suspicions.empty());
  EXPECT_EQ(diagnosis.verdict.pattern, Pattern::in_step);
}

TEST(TraceFindings, NameALoaderThatStarvesTheGpu) {
  Signals signals = healthy_trace();
  signals.trace->removable[index_of(StepPart::data_wait)] = 0.25;
  signals.trace->ranks[0].idle[index_of(StepPart::data_wait)] = 0.28;
  signals.trace->loader_file = "train.py";
  signals.trace->loader_line = 12;
  signals.trace->loader_in_process = true;

  const Diagnosis diagnosis = diagnose(signals);

  const Finding* const starved = find(diagnosis.findings, FindingCode::input_starved);
  ASSERT_NE(starved, nullptr);
  EXPECT_DOUBLE_EQ(starved->lost_throughput, 0.25)
      << "what the replay gives back, not what was seen";
  ASSERT_EQ(starved->where.size(), 1U);
  EXPECT_EQ(starved->where.front().line, 12);
  EXPECT_EQ(starved->ranks, std::vector<int>{0});
  EXPECT_NE(find(diagnosis.findings, FindingCode::loader_without_workers), nullptr);

  signals.trace->loader_in_process = false;
  EXPECT_EQ(find(diagnose(signals).findings, FindingCode::loader_without_workers), nullptr)
      << "it has workers";
  signals.trace->removable[index_of(StepPart::data_wait)] = 0.03;
  EXPECT_EQ(find(diagnose(signals).findings, FindingCode::input_starved), nullptr);
  EXPECT_NE(find(diagnose(signals).suspicions, FindingCode::input_starved), nullptr);
}

TEST(TraceFindings, NameWaitsForTheGpuInEveryStep) {
  Signals signals = healthy_trace();
  signals.trace->waits = {{"aten::item", StepPart::sync, "train.py", 31, 1, 20, 1}};
  signals.trace->removable[index_of(StepPart::sync)] = 0.06;
  signals.trace->ranks[0].idle[index_of(StepPart::sync)] = 0.05;

  const Diagnosis diagnosis = diagnose(signals);
  const Finding* const finding = find(diagnosis.findings, FindingCode::host_sync_every_step);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->where.front().line, 31);

  signals.trace->waits.front().present = 0.2;
  EXPECT_EQ(find(diagnose(signals).findings, FindingCode::host_sync_every_step), nullptr)
      << "now and then is what people are told to do";
  signals.trace->waits.front().present = 1;
  signals.trace->removable[index_of(StepPart::sync)] = 0;
  EXPECT_EQ(find(diagnose(signals).findings, FindingCode::host_sync_every_step), nullptr)
      << "the GPU never ran dry";
}

TEST(TraceFindings, NameTheLoopsOwnCodeThatTheGpuWaitsFor) {
  Signals signals = healthy_trace();
  signals.trace->removable[index_of(StepPart::other)] = 0.67;
  signals.trace->ranks[0].idle[index_of(StepPart::other)] = 0.66;
  signals.trace->code = {{"train.py", 12, 60}, {"metrics.py", 3, 1}};
  signals.jobs.front().steps.emplace().share[index_of(StepPart::other)] = 0.68;

  const Diagnosis diagnosis = diagnose(signals);
  const Finding* const finding = find(diagnosis.findings, FindingCode::slow_host_code);
  ASSERT_NE(finding, nullptr);
  EXPECT_NEAR(finding->lost_throughput, 0.66, 1e-9);
  ASSERT_EQ(finding->where.size(), 1U) << "what takes a tenth of it or more";
  EXPECT_EQ(finding->where.front().line, 12);
  EXPECT_EQ(finding->ranks, std::vector<int>{0});

  signals.trace->removable[index_of(StepPart::other)] = 0.08;
  EXPECT_EQ(find(diagnose(signals).findings, FindingCode::slow_host_code), nullptr)
      << "a profiler's own pause between two steps looks the same";
  signals.trace->removable[index_of(StepPart::other)] = 0.67;
  signals.jobs.front().steps->share[index_of(StepPart::other)] = 0.04;
  EXPECT_EQ(find(diagnose(signals).findings, FindingCode::slow_host_code), nullptr)
      << "it lies before the first step";
  signals.jobs.front().steps->share[index_of(StepPart::other)] = 0.68;
  signals.trace->steps = 1;
  EXPECT_EQ(find(diagnose(signals).findings, FindingCode::slow_host_code), nullptr);
}

TEST(TraceFindings, NameLoggingSavingEvaluatingAndTheCollector) {
  for (const auto& [part, code] : {std::pair{StepPart::logging, FindingCode::logging_too_often},
                                   {StepPart::checkpoint, FindingCode::checkpoint_stall},
                                   {StepPart::evaluation, FindingCode::evaluation_stall},
                                   {StepPart::gc, FindingCode::stopped_by_collector}}) {
    Signals signals = healthy_trace();
    signals.trace->removable[index_of(part)] = 0.04;
    signals.trace->ranks[1].idle[index_of(part)] = 0.05;
    const Diagnosis diagnosis = diagnose(signals);
    ASSERT_NE(find(diagnosis.findings, code), nullptr) << kStepSpanNames[index_of(part)];
    EXPECT_EQ(find(diagnosis.findings, code)->ranks, std::vector<int>{1});

    signals.trace->removable[index_of(part)] = 0.01;
    EXPECT_EQ(find(diagnose(signals).findings, code), nullptr);
  }
}

TEST(TraceFindings, NameAHostThatIsTooSlowToLaunch) {
  Signals signals = healthy_trace();
  signals.trace->ranks[0].idle[index_of(StepPart::forward)] = 0.3;
  signals.trace->removable_launches = 0.4;
  const Diagnosis diagnosis = diagnose(signals);
  ASSERT_NE(find(diagnosis.findings, FindingCode::launch_bound), nullptr);
  EXPECT_DOUBLE_EQ(find(diagnosis.findings, FindingCode::launch_bound)->lost_throughput, 0.3);
  EXPECT_DOUBLE_EQ(find(diagnosis.findings, FindingCode::launch_bound)->confidence, 0.85);

  signals.trace->has_python_rows = true;
  EXPECT_DOUBLE_EQ(find(diagnose(signals).findings, FindingCode::launch_bound)->confidence, 0.6)
      << "stacks slow the host";
  signals.trace->removable_launches = 0.05;
  EXPECT_EQ(find(diagnose(signals).findings, FindingCode::launch_bound), nullptr)
      << "idle, but for something else that would stay";
}

TEST(TraceFindings, NamePageableCopiesThatNothingHides) {
  Signals signals = healthy_trace();
  signals.trace->pageable_bytes_a_step = 50e6;
  signals.trace->pageable_ms_a_step = 8;
  signals.trace->ranks[0].exposed_copies = 0.07;
  EXPECT_NE(find(diagnose(signals).findings, FindingCode::pageable_copies), nullptr);

  signals.trace->ranks[0].exposed_copies = 0;
  EXPECT_EQ(find(diagnose(signals).findings, FindingCode::pageable_copies), nullptr);
}

TEST(TraceFindings, NameTheRankThatTheOthersWaitFor) {
  Signals signals = healthy_trace();
  signals.trace->ranks[1].late_share = 0.95;
  signals.trace->ranks[1].late_ms_a_step = 15;
  signals.trace->ranks[0].late_share = 0.05;
  signals.trace->ranks[0].exposed_communication = 0.17;
  signals.trace->ranks[0].computes = 0.8;

  const Diagnosis diagnosis = diagnose(signals);
  const Finding* const finding = find(diagnosis.findings, FindingCode::straggler_rank);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->ranks, std::vector<int>{1});
  EXPECT_NEAR(finding->lost_throughput, 0.14, 1e-9);
  EXPECT_EQ(finding->evidence.back().signal,
            "its GPU computes longer: more work, or a slower clock");

  signals.trace->ranks[1].late_share = 0.5;
  signals.trace->ranks[0].late_share = 0.5;
  EXPECT_EQ(find(diagnose(signals).findings, FindingCode::straggler_rank), nullptr)
      << "late in turn: nobody's fault alone";
  signals.trace->ranks[1].late_share = 0.95;
  signals.trace->ranks[0].exposed_communication = 0.03;
  EXPECT_EQ(find(diagnose(signals).findings, FindingCode::straggler_rank), nullptr)
      << "late, but nobody had to wait for it";
}

TEST(TraceFindings, NameCollectivesThatNothingIsComputedUnder) {
  Signals signals = healthy_trace();
  for (TraceRankSignals& rank : signals.trace->ranks) rank.exposed_communication = 0.2;
  signals.trace->removable_collectives = 0.18;
  ASSERT_NE(find(diagnose(signals).findings, FindingCode::exposed_collectives), nullptr);
  EXPECT_DOUBLE_EQ(
      find(diagnose(signals).findings, FindingCode::exposed_collectives)->lost_throughput, 0.18);

  signals.trace->ranks[1].exposed_communication = 0.05;
  EXPECT_EQ(find(diagnose(signals).findings, FindingCode::exposed_collectives), nullptr)
      << "the transfer is short: rank 0 waits";
  signals.trace->ranks[1].exposed_communication = 0.2;
  signals.trace->removable_collectives = 0;
  EXPECT_EQ(find(diagnose(signals).findings, FindingCode::exposed_collectives), nullptr)
      << "the host would be late all the same";
}

TEST(TraceFindings, NameGradientsThatAreSharedInEveryMicroStep) {
  Signals signals = healthy_trace();
  for (TraceRankSignals& rank : signals.trace->ranks) rank.exposed_communication = 0.08;
  signals.trace->passes_a_step = 4;
  signals.trace->passes_with_collectives = 4;
  ASSERT_NE(find(diagnose(signals).findings, FindingCode::sync_every_micro_step), nullptr);
  EXPECT_NEAR(find(diagnose(signals).findings, FindingCode::sync_every_micro_step)->lost_throughput,
              0.06, 1e-9);

  signals.trace->passes_with_collectives = 1;
  EXPECT_EQ(find(diagnose(signals).findings, FindingCode::sync_every_micro_step), nullptr)
      << "no_sync is there";
  signals.trace->passes_a_step = 1;
  EXPECT_EQ(find(diagnose(signals).findings, FindingCode::sync_every_micro_step), nullptr)
      << "no accumulation";
}

TEST(TraceFindings, NameTheSearchForUnusedParameters) {
  Signals signals = healthy_trace();
  signals.trace->find_unused_ms_a_step = 5;
  for (TraceRankSignals& rank : signals.trace->ranks) rank.busy = 0.85;
  EXPECT_NE(find(diagnose(signals).findings, FindingCode::find_unused_parameters), nullptr);

  for (TraceRankSignals& rank : signals.trace->ranks) rank.busy = 0.995;
  EXPECT_EQ(find(diagnose(signals).findings, FindingCode::find_unused_parameters), nullptr)
      << "the GPU never waited for it";
}

TEST(TraceFindings, NameProductsWithoutTensorCores) {
  Signals signals = healthy_trace();
  signals.trace->plain_matmul_share = 0.5;
  signals.trace->tensor_core_share = 0;
  EXPECT_NE(find(diagnose(signals).findings, FindingCode::tensor_cores_unused), nullptr);

  signals.trace->has_tensor_cores = false;
  EXPECT_EQ(find(diagnose(signals).findings, FindingCode::tensor_cores_unused), nullptr)
      << "a Pascal has none";
  signals.trace->has_tensor_cores = true;
  signals.trace->tensor_core_share = 0.4;
  EXPECT_EQ(find(diagnose(signals).findings, FindingCode::tensor_cores_unused), nullptr);
}

TEST(TraceFindings, NameGpusOfOneProcessThatTakeTurnsOrFollowOne) {
  Signals signals = healthy_trace();
  signals.trace->ranks.pop_back();
  signals.trace->turns = DeviceTurns{{0, 1}, {0.48, 0.47}, 0.97, 40, false};
  const Diagnosis turns = diagnose(signals);
  EXPECT_EQ(turns.verdict.pattern, Pattern::taking_turns);
  ASSERT_NE(find(turns.findings, FindingCode::taking_turns), nullptr);
  EXPECT_DOUBLE_EQ(find(turns.findings, FindingCode::taking_turns)->lost_throughput, 0.5);

  signals.trace->turns = DeviceTurns{{0, 1}, {0.8, 0.5}, 0.4, 40, true};
  EXPECT_EQ(diagnose(signals).verdict.pattern, Pattern::one_leads);
  EXPECT_NE(find(diagnose(signals).findings, FindingCode::one_gpu_leads), nullptr);

  signals.trace->turns = DeviceTurns{{0, 1}, {0.9, 0.9}, 0.1, 40, false};
  EXPECT_EQ(diagnose(signals).verdict.pattern, Pattern::in_step);
  EXPECT_TRUE(diagnose(signals).findings.empty());
}

TEST(TraceFindings, AreLessSureWhereTheReplayWentAstrayOrStepsAreFew) {
  Signals signals = healthy_trace();
  signals.trace->removable[index_of(StepPart::data_wait)] = 0.25;
  EXPECT_DOUBLE_EQ(diagnose(signals).findings.front().confidence, 0.95);
  signals.trace->steps = 1;
  EXPECT_DOUBLE_EQ(diagnose(signals).findings.front().confidence, 0.75);
  signals.trace->replay_error = 0.3;
  EXPECT_DOUBLE_EQ(diagnose(signals).findings.front().confidence, 0.6);
}

}  // namespace
}  // namespace lockstep
