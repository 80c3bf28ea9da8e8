// What keeps a GPU waiting, and what the run would take without it.
#include "traces/analyse.hpp"

#include <gtest/gtest.h>

#include "kernels/matmul_kinds.hpp"
#include "support/trace_maker.hpp"
#include "traces/breakdown.hpp"
#include "traces/host_labels.hpp"

namespace lockstep {
namespace {

using namespace testing;

TraceAnalysis analysis_of(std::vector<RankTrace> traces) {
  return analyse_traces(traces, break_down(traces, BreakdownRules::exact));
}

TraceAnalysis analysis_of(const TraceMaker& maker) {
  std::vector<RankTrace> traces;
  traces.push_back(maker.trace());
  return analysis_of(std::move(traces));
}

// Steps of 1000 us: the loader for `loading`, then ten kernels of `kernel_us` each, launched 10 us
// apart.
TraceMaker steps_with(double loading, double kernel_us, int steps = 4) {
  TraceMaker maker;
  double gpu_free = 0;
  double host = 0;
  for (int step = 0; step < steps; ++step) {
    const double begin = host;
    maker.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", host, loading);
    host += loading;
    for (int k = 0; k < 10; ++k) {
      maker.op("aten::mm", host, 8);
      const double start = std::max(host + 8, gpu_free);
      maker.kernel("gemm", host + 1, start, kernel_us);
      gpu_free = start + kernel_us;
      host += 10;
    }
    maker.annotation("ProfilerStep#" + std::to_string(step + 1), begin, host - begin);
  }
  return maker;
}

TEST(Replay, IsTheRunAsItWasWhenNothingIsLeftOut) {
  EXPECT_NEAR(analysis_of(steps_with(300, 50)).signals.replay_error, 0, 0.01);
  EXPECT_NEAR(analysis_of(steps_with(0, 50)).signals.replay_error, 0, 0.01);
}

// A wait for the GPU, and behind it 20 ms of the loop's own code, in score().
TraceMaker steps_that_sleep(double sleep_us, int steps = 4) {
  TraceMaker maker;
  double host = 0;
  for (int step = 0; step < steps; ++step) {
    const double begin = host;
    maker.op("aten::mm", host, 8);
    maker.kernel("gemm", host + 1, host + 10, 5000);
    maker.op("aten::item", host + 20, 4995);
    maker.call("cudaStreamSynchronize", host + 21, 4992);
    host += 5020;
    maker.python("/home/ada/train.py(12): score", host, sleep_us);
    maker.python("<built-in function sleep>", host, sleep_us);
    host += sleep_us + 5;
    maker.annotation("ProfilerStep#" + std::to_string(step + 1), begin, host - begin);
  }
  return maker;
}

TEST(OwnCode, BehindAWaitIsItsOwnReason) {
  const TraceSignals signals = analysis_of(steps_that_sleep(20'000)).signals;

  EXPECT_NEAR(signals.ranks.front().idle[index_of(StepPart::other)], 0.75, 0.06);
  EXPECT_LT(signals.ranks.front().idle[index_of(StepPart::sync)], 0.02);
  EXPECT_GT(signals.removable[index_of(StepPart::other)], 0.6);
  ASSERT_EQ(signals.code.size(), 1U);
  EXPECT_EQ(signals.code.front().file, "/home/ada/train.py");
  EXPECT_EQ(signals.code.front().line, 12);
  EXPECT_NEAR(signals.code.front().idle_ms_a_step, 15, 1.5) << "three of four steps have a next";
}

TEST(OwnCode, OfMicrosecondsIsWhatTheHostCatchesUpWith) {
  const TraceSignals signals = analysis_of(steps_that_sleep(200)).signals;

  EXPECT_LT(signals.ranks.front().idle[index_of(StepPart::other)], 0.01);
}

// Small kernels, launched one behind the other with `between_us` of Python between two operators.
TraceMaker steps_launched_slowly(double between_us, int steps) {
  TraceMaker maker;
  double host = 0;
  for (int step = 0; step < steps; ++step) {
    const double begin = host;
    for (int k = 0; k < 20; ++k) {
      maker.op("aten::add_", host, 20);
      maker.kernel("add", host + 15, host + 22, 4);
      host += 20 + between_us;
    }
    maker.annotation("ProfilerStep#" + std::to_string(step + 1), begin, host - begin);
  }
  return maker;
}

TEST(OwnCode, PythonBetweenTwoOperatorsIsLaunching) {
  const TraceSignals quick = analysis_of(steps_launched_slowly(30, 4)).signals;
  const TraceSignals slow = analysis_of(steps_launched_slowly(3000, 4)).signals;

  EXPECT_LT(quick.ranks.front().idle[index_of(StepPart::other)], 0.02);
  EXPECT_GT(quick.ranks.front().idle[index_of(StepPart::forward)], 0.8);
  EXPECT_GT(slow.ranks.front().idle[index_of(StepPart::other)], 0.9) << "3 ms are code of its own";
}

// What the host does before the first kernel of the only step that was traced.
TEST(OwnCode, BeforeTheFirstKernelOfOneStepIsPartOfIt) {
  const auto trace_of = [](double launched_us) {
    TraceMaker maker;
    maker.annotation("ProfilerStep#1", 0, 30'000);
    maker.op("aten::mm", launched_us, 8);
    maker.kernel("gemm", launched_us + 1, 20'010, 9000);
    return analysis_of(maker).signals.ranks.front().idle[index_of(StepPart::other)];
  };

  EXPECT_NEAR(trace_of(20'000), 20.0 / 29, 0.02);
  EXPECT_LT(trace_of(10), 0.01) << "it stood in a queue: the GPU had work that nobody wrote down";
}

TEST(Replay, GivesBackAnExposedWaitForData) {
  // 400 us of loading, 500 us of kernels: the GPU waits for what the loading lasts longer than its
  // queue.
  const TraceSignals signals = analysis_of(steps_with(600, 50)).signals;

  // Without loading the GPU works without a break: 500 of 690 us a step.
  EXPECT_NEAR(signals.removable[index_of(StepPart::data_wait)], 0.25, 0.08);
  EXPECT_GT(signals.ranks.front().idle[index_of(StepPart::data_wait)], 0.1);
  EXPECT_EQ(signals.loader_in_process, true);
}

TEST(Replay, GivesNothingBackForAWaitThatHidesBehindTheGpu) {
  // 100 us of loading behind 900 us of kernels in the queue.
  const TraceSignals signals = analysis_of(steps_with(100, 90)).signals;

  EXPECT_LT(signals.removable[index_of(StepPart::data_wait)], 0.03);
  EXPECT_GT(signals.data_wait_ms_a_step, 0.09) << "it was seen all the same";
}

TEST(Replay, GivesBackTheQueueThatAWaitForTheGpuEmpties) {
  const auto run = [](bool waits) {
    TraceMaker maker;
    double host = 0;
    double gpu_free = 0;
    for (int step = 0; step < 5; ++step) {
      const double begin = host;
      for (int k = 0; k < 10; ++k) {
        const double start = std::max(host + 8, gpu_free);
        maker.op("aten::mm", host, 25).kernel("gemm", host + 1, start, 28);
        gpu_free = start + 28;
        host += 27;
      }
      if (waits) {
        const double end = std::max(gpu_free, host + 4) + 3;
        maker.op("aten::item", host, end - host + 2)
            .call("cudaStreamSynchronize", host + 1, end - host - 1);
        host = end + 40;
      }
      maker.annotation("ProfilerStep#" + std::to_string(step + 1), begin, host - begin);
    }
    return analysis_of(maker).signals;
  };

  const TraceSignals with = run(true);
  const TraceSignals without = run(false);

  EXPECT_GT(with.removable[index_of(StepPart::sync)], 0.03);
  EXPECT_EQ(without.removable[index_of(StepPart::sync)], 0);
  ASSERT_EQ(with.waits.size(), 1U);
  EXPECT_EQ(with.waits.front().what, "aten::item");
  EXPECT_DOUBLE_EQ(with.waits.front().present, 1);
}

TEST(Replay, LetsThreadsCallAtTheSameTime) {
  TraceMaker maker;
  for (int i = 0; i < 20; ++i) {
    const double t = 300.0 * i;
    maker.annotation("ProfilerStep#" + std::to_string(i + 1), t, 300);
    // one thread waits
    maker.kernel("gemm", t + 1, t + 10, 200).call("cudaStreamSynchronize", t + 20, 200);
    // another launches meanwhile
    for (int k = 0; k < 10; ++k) maker.kernel("side", t + 30 + 15 * k, t + 40 + 15 * k, 5, 9, 0, 2);
  }

  EXPECT_NEAR(analysis_of(maker).signals.replay_error, 0, 0.02);
}

// Two ranks whose only difference is what rank 1 computes before each all-reduce.
std::vector<RankTrace> two_ranks(
    double late_us, const std::string& collective = "ncclDevKernel_AllReduce_Sum_f32_RING_LL") {
  std::vector<RankTrace> traces;
  for (int rank = 0; rank < 2; ++rank) {
    TraceMaker maker;
    maker.rank(rank, 2);
    double t = 0;
    for (int step = 0; step < 4; ++step) {
      const double compute = 500 + (rank == 1 ? late_us : 0);
      const double end = t + 10 + 500 + late_us + 100;  // the last arrives, then 100 us of transfer
      maker.annotation("ProfilerStep#" + std::to_string(step + 1), t, end - t);
      maker.kernel("gemm", t + 1, t + 10, compute);
      maker.kernel(collective, t + 8, t + 10 + compute, end - t - 10 - compute, 20);
      maker.call("cudaStreamSynchronize", t + 15, end - t - 14);
      t = end + 5;
    }
    traces.push_back(maker.trace());
  }
  return traces;
}

TEST(Arrivals, NameTheRankThatIsLast) {
  const TraceSignals signals = analysis_of(two_ranks(200)).signals;

  EXPECT_EQ(signals.collectives, 4U);
  EXPECT_NEAR(signals.ranks[1].late_share, 1, 1e-9);
  EXPECT_NEAR(signals.ranks[1].late_ms_a_step, 0.2, 0.01);
  EXPECT_GT(signals.ranks[0].exposed_communication, signals.ranks[1].exposed_communication)
      << "who waits has the long kernels";
  EXPECT_NEAR(signals.replay_error, 0, 0.02);
}

TEST(Arrivals, LieOnTheLongestChain) {
  const TraceSignals signals = analysis_of(two_ranks(200)).signals;

  ASSERT_FALSE(signals.critical_path.empty());
  EXPECT_EQ(signals.critical_path.front().what, "compute");
  EXPECT_EQ(signals.critical_path.front().rank, 1);
}

TEST(Arrivals, ThatComeInAnotherOrderOnEachRankEndTheReplayToo) {
  std::vector<RankTrace> traces;
  for (int rank = 0; rank < 2; ++rank) {
    TraceMaker maker;
    maker.rank(rank, 2);
    for (int step = 0; step < 3; ++step) {
      const double t = 100.0 * step;
      maker.annotation("ProfilerStep#" + std::to_string(step + 1), t, 100);
      maker
          .kernel(rank == 0 ? "ncclDevKernel_AllReduce" : "ncclDevKernel_AllGather", t, t + 10, 10,
                  20)
          .kernel(rank == 0 ? "ncclDevKernel_AllGather" : "ncclDevKernel_AllReduce", t + 2, t + 20,
                  10, 20);
    }
    traces.push_back(maker.trace());
  }

  EXPECT_FALSE(analysis_of(std::move(traces)).signals.critical_path.empty());
}

TEST(Arrivals, OfGroupsWithoutTheFirstRankAreMatchedToo) {
  std::vector<RankTrace> traces = two_ranks(200);
  TraceMaker first;
  first.rank(9, 10).kernel("gemm", 0, 10, 500);
  traces.insert(traces.begin(), first.trace());

  EXPECT_EQ(analysis_of(std::move(traces)).signals.collectives, 4U);
}

TEST(Arrivals, AreMatchedThoughTheClocksDiffer) {
  std::vector<RankTrace> traces = two_ranks(200);
  for (DeviceRow& row : traces[1].device_rows) row.start_ns += 5'000'000'000;
  for (HostRow& row : traces[1].host_rows) row.start_ns += 5'000'000'000;

  const TraceAnalysis analysis = analysis_of(std::move(traces));

  EXPECT_NEAR(analysis.signals.ranks[1].late_ms_a_step, 0.2, 0.01);
  EXPECT_EQ(analysis.clock_offsets_ns[1], -5'000'000'000);
}

TEST(Turns, AreCountedBetweenTheGpusOfOneProcess) {
  TraceMaker turns;
  TraceMaker together;
  for (int i = 0; i < 10; ++i) {
    turns.kernel("gemm", 100.0 * i, 100.0 * i + 10, 45, 7, 0)
        .kernel("gemm", 100.0 * i + 5, 100.0 * i + 56, 45, 7, 1);
    together.kernel("gemm", 100.0 * i, 100.0 * i + 10, 80, 7, 0)
        .kernel("gemm", 100.0 * i + 5, 100.0 * i + 12, 80, 7, 1);
  }

  EXPECT_GT(analysis_of(turns).signals.turns->exclusive, 0.99);
  EXPECT_GE(analysis_of(turns).signals.turns->hand_overs, 18);
  EXPECT_LT(analysis_of(together).signals.turns->exclusive, 0.1);
  EXPECT_FALSE(analysis_of(steps_with(0, 50)).signals.turns) << "one GPU";
}

TEST(Steps, AreCutAtTheOptimizerWhereTheProfilerMarksNone) {
  TraceMaker maker;
  for (int i = 0; i < 5; ++i)
    maker.op("aten::mm", 100.0 * i, 20)
        .kernel("gemm", 100.0 * i + 5, 100.0 * i + 20, 60)
        .annotation("Optimizer.step#AdamW.step", 100.0 * i + 80, 10);

  const TraceAnalysis analysis = analysis_of(maker);

  EXPECT_EQ(analysis.signals.steps, 4)
      << "what lies before the first optimizer step is part of one";
  EXPECT_NEAR(analysis.signals.step_ms, 0.1, 0.02);
}

TEST(Steps, LastAsLongAsTheHostTakesWhereTheGpuIsDoneEarly) {
  TraceMaker maker;
  for (int i = 0; i < 2; ++i)
    maker.annotation("ProfilerStep#" + std::to_string(i + 1), 1000.0 * i, 1000)
        .kernel("gemm", 1000.0 * i + 5, 1000.0 * i + 20, 100);

  EXPECT_NEAR(analysis_of(maker).signals.step_ms, 1.0, 0.05);
  maker.annotation("ProfilerStep#3", 2000, 10);  // the capture ended
  EXPECT_EQ(analysis_of(maker).signals.steps, 2);
}

TEST(Steps, HaveSpansThatSumToTheirLength) {
  const TraceAnalysis analysis = analysis_of(steps_with(600, 50));

  ASSERT_EQ(analysis.timeline.steps.size(), 4U);
  for (const StepAt& entry : analysis.timeline.steps) {
    double sum = 0;
    for (std::size_t part = 0; part < kStepSpanNames.size(); ++part)
      if (part != index_of(StepPart::collective_hidden))
        sum += entry.step.spans_ms[part].value_or(0);
    EXPECT_NEAR(sum, entry.step.duration_ms, 1e-6);
  }
}

TEST(HostLabels, ASilenceWithinAForwardPassIsNoLaunching) {
  TraceMaker maker;
  maker.annotation("ProfilerStep#1", 0, 60'000)
      .annotation("## forward ##", 0, 50'000)
      .op("aten::linear", 10, 50)
      .op("aten::linear", 200, 50)
      .op("aten::linear", 40'000, 50);
  maker.annotation("## backward ##", 50'000, 9'000).op("MmBackward0", 51'000, 50, 2);
  const RankTrace trace = maker.trace();
  const HostLabels labels(trace);
  const auto part_at = [&](double us) {
    return labels.at(0, static_cast<std::int64_t>(us * 1000)).part;
  };

  EXPECT_EQ(part_at(100), StepPart::forward) << "Python between two operators";
  EXPECT_EQ(part_at(20'000), StepPart::other);
  EXPECT_EQ(part_at(55'000), StepPart::backward) << "it waits for autograd's thread";
}

TEST(HostLabels, FollowTheInnermostRowThatSaysWhatItIsFor) {
  TraceMaker maker;
  maker.annotation("ProfilerStep#1", 0, 1000)
      .op("aten::linear", 10, 50)
      .annotation("Optimizer.step#SGD.step", 100, 100)
      .op("aten::add_", 110, 20)
      .op("aten::item", 150, 30)
      .call("cudaStreamSynchronize", 155, 20);
  maker.annotation("my logging", 300, 50)
      .op("aten::mm", 310, 20)
      .op("MmBackward0", 400, 50, 2)
      .op("aten::to", 500, 40)
      .call("cudaStreamSynchronize", 510, 20);
  const RankTrace trace = maker.trace();
  const HostLabels labels(trace);
  const auto part_at = [&](double us, std::uint32_t thread = 0) {
    return labels.at(thread, static_cast<std::int64_t>(us * 1000)).part;
  };

  EXPECT_EQ(part_at(20), StepPart::forward);
  EXPECT_EQ(part_at(120), StepPart::optimizer);
  EXPECT_EQ(part_at(160), StepPart::sync);
  EXPECT_EQ(part_at(320), StepPart::logging) << "what it computes for the log is the log's";
  EXPECT_EQ(part_at(420, 1), StepPart::backward) << "operators of other threads are autograd's";
  EXPECT_EQ(part_at(520), StepPart::copy) << "a wait within a copy waits for the copy";
  EXPECT_EQ(part_at(700), StepPart::other);
  EXPECT_EQ(part_at(220, 1), StepPart::other);
}

TEST(PythonLines, AreTheUsersOwn) {
  TraceMaker maker;
  maker.python("/home/me/train.py(10): main", 0, 1000)
      .python("/home/me/train.py(31): step", 90, 200)
      .python("torch/_tensor.py(12): item", 95, 100)
      .op("aten::item", 100, 50);
  const RankTrace trace = maker.trace();

  const auto line = python_line(trace, 3);

  ASSERT_TRUE(line);
  EXPECT_EQ(line->file, "/home/me/train.py");
  EXPECT_EQ(line->line, 31);
}

TEST(MatmulKinds, AreToldByTheNamesOfTheLibraries) {
  for (const char* const name :
       {"volta_sgemm_64x64_nt", "ampere_sgemm_128x64_tn",
        "cudnn_volta_scudnn_128x64_relu_medium_nn_v1",
        "void cutlass::Kernel<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(T)",
        "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_ffma_kernel"})
    EXPECT_EQ(matmul_kind(name), MatmulKind::plain) << name;
  for (const char* const name :
       {"volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn",
        "ampere_fp16_s16816gemm_fp16_128x64_ldg8_stages_32x6_tn",
        "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x64_32x6_nt_align4>(T)",
        "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x16",
        "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT",
        "void flash_fwd_kernel<Flash_fwd_kernel_traits<64>>(P)"})
    EXPECT_EQ(matmul_kind(name), MatmulKind::tensor_cores) << name;
  EXPECT_EQ(
      matmul_kind(
          "void at::native::vectorized_elementwise_kernel<4, at::native::bfloat16_copy_kernel>"),
      MatmulKind::none);
}

}  // namespace
}  // namespace lockstep
