// What the model says against what was measured and published.
#include <gtest/gtest.h>

#include "model/batch_room.hpp"
#include "model/known_models.hpp"
#include "model/memory_model.hpp"
#include "model/time_model.hpp"

namespace lockstep {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

PlannedMachine machine_of(const char* gpu, int gpus = 1, int nodes = 1) {
  PlannedMachine machine;
  machine.gpu = *gpu_kind_named(gpu);
  machine.gpus_a_node = gpus;
  machine.nodes = nodes;
  machine.link_bytes_s = 0.75 * machine.gpu.nvlink_bytes_s;
  machine.network_bytes_s = 4e10;
  return machine;
}

Workload workload_of(const char* model, std::int64_t length, TrainingProgram program,
                     NumberFormat format = NumberFormat::bf16) {
  Workload workload;
  workload.net = *known_model(model);
  workload.sequence_length = length;
  workload.program = program;
  workload.format = format;
  return workload;
}

struct MeasuredRun {
  TrainingProgram program;
  const char* model;
  std::int64_t batch;
  Checkpointing checkpointing;
  NumberFormat format;
  double peak_gb;  // as torch's allocator counts it
  double step_ms;
};

// One H200, 1024 tokens a sample, torch 2.11 and lockstep-train, November 2026 (scripts/bench plan
// measures others).
constexpr auto kNone = Checkpointing::none;
constexpr auto kBlocks = Checkpointing::blocks;
constexpr auto kBf16 = NumberFormat::bf16;
constexpr MeasuredRun kRuns[] = {
    {TrainingProgram::pytorch, "gpt2", 1, kNone, kBf16, 2.70, 15.0},
    {TrainingProgram::pytorch, "gpt2", 4, kNone, kBf16, 5.27, 15.8},
    {TrainingProgram::pytorch, "gpt2", 16, kNone, kBf16, 15.59, 43.5},
    {TrainingProgram::pytorch, "gpt2", 64, kNone, kBf16, 56.88, 157.7},
    {TrainingProgram::pytorch, "gpt2-xl", 1, kNone, kBf16, 25.78, 72.9},
    {TrainingProgram::pytorch, "gpt2-xl", 4, kNone, kBf16, 35.85, 121.6},
    {TrainingProgram::pytorch, "gpt2-xl", 12, kNone, kBf16, 62.49, 291.6},
    {TrainingProgram::pytorch, "gpt2-medium", 8, kNone, kBf16, 16.47, 56.6},
    {TrainingProgram::pytorch, "gpt2-large", 8, kNone, kBf16, 28.80, 111.7},
    {TrainingProgram::pytorch, "gpt2", 16, kBlocks, kBf16, 10.57, 55.0},
    {TrainingProgram::pytorch, "gpt2", 64, kBlocks, kBf16, 37.33, 183.6},
    {TrainingProgram::pytorch, "gpt2-xl", 4, kBlocks, kBf16, 25.78, 227.7},
    {TrainingProgram::pytorch, "gpt2-xl", 16, kBlocks, kBf16, 33.81, 455.5},
    {TrainingProgram::pytorch, "gpt2", 16, kNone, NumberFormat::tf32, 21.24, 100.5},
    {TrainingProgram::pytorch, "gpt2-xl", 4, kNone, NumberFormat::tf32, 41.95, 266.0},
    {TrainingProgram::pytorch_compiled, "gpt2", 16, kNone, kBf16, 9.07, 33.6},
    {TrainingProgram::pytorch_compiled, "gpt2-medium", 8, kNone, kBf16, 13.28, 47.5},
    {TrainingProgram::lockstep_fused, "gpt2", 1, kNone, kBf16, 2.93, 7.7},
    {TrainingProgram::lockstep_fused, "gpt2", 16, kNone, kBf16, 9.08, 29.6},
    {TrainingProgram::lockstep_fused, "gpt2", 64, kNone, kBf16, 28.87, 107.9},
    {TrainingProgram::lockstep_fused, "gpt2-xl", 1, kNone, kBf16, 31.77, 51.1},
    {TrainingProgram::lockstep_fused, "gpt2-xl", 12, kNone, kBf16, 60.73, 248.6},
    {TrainingProgram::lockstep_plain, "gpt2", 32, kNone, kBf16, 29.85, 91.4},
    {TrainingProgram::lockstep_plain, "gpt2-xl", 12, kNone, kBf16, 69.00, 322.3},
};

TEST(Measured, MemoryOfOneGpuIsWithinTenPercent) {
  for (const MeasuredRun& run : kRuns) {
    const Workload workload = workload_of(run.model, 1024, run.program, run.format);
    const MemoryParts parts = memory_of(
        footprint_of(workload), {.micro_batch = run.batch, .checkpointing = run.checkpointing},
        1024, machine_of("H200-141GB"));
    EXPECT_NEAR(parts.peak_bytes() / 1e9 / run.peak_gb, 1, 0.1)
        << run.model << " batch " << run.batch << " program " << static_cast<int>(run.program);
    EXPECT_GT(parts.total_bytes(), parts.peak_bytes());
  }
}

TEST(Measured, StepsOfOneGpuAreWithinTwentyPercent) {
  for (const MeasuredRun& run : kRuns) {
    const Workload workload = workload_of(run.model, 1024, run.program, run.format);
    const StepTime time = time_of(footprint_of(workload),
                                  {.micro_batch = run.batch, .checkpointing = run.checkpointing},
                                  1024, run.format, machine_of("H200-141GB"));
    EXPECT_NEAR(time.step_ms() / run.step_ms, 1, 0.2)
        << run.model << " batch " << run.batch << " program " << static_cast<int>(run.program);
  }
}

TEST(Published, StatesAreSixteenBytesAParameter) {
  const Footprint footprint = footprint_of(workload_of("llama-8b", 2048, TrainingProgram::pytorch));

  const double states =
      footprint.weights_bytes + footprint.gradients_bytes + footprint.optimizer_bytes;

  EXPECT_NEAR(states / footprint.parameters, 16, 1e-9);
}

TEST(Published, ActivationsOfGpt2At32kTokens) {
  const Workload workload = workload_of("gpt2", 1024, TrainingProgram::pytorch);
  const MemoryParts parts =
      memory_of(footprint_of(workload), {.micro_batch = 32}, 1024, machine_of("H200-141GB"));

  // The layers alone; the logits' 10 to 12 bytes a word come on top (facts: 12 x 27.7 kB a token).
  EXPECT_NEAR(parts.activations_bytes / (32 * 1024.0 * 12 * 27.7e3), 1, 0.1);
}

// torchtitan, Llama 3.1 8B with FSDP, batch 2 of 8192: 82.4 GiB on 8 GPUs, 67.0 on 128.
TEST(Published, MemoryOfFsdpFallsWithTheGpus) {
  Workload workload = workload_of("llama-8b", 8192, TrainingProgram::pytorch);
  const Footprint footprint = footprint_of(workload);
  const auto total = [&](int gpus) {
    const TrainingSetting setting{.strategy = SplitStrategy::fsdp,
                                  .gpus = gpus,
                                  .group = gpus,
                                  .micro_batch = 2,
                                  .accumulation = 2,
                                  .checkpointing = Checkpointing::blocks};
    return memory_of(footprint, setting, 8192, machine_of("H100-80GB", 8, gpus / 8)).peak_bytes();
  };

  EXPECT_NEAR((total(8) - total(128)) / kGiB, 15.4, 1.54);
}

// llm.c: 10B tokens of GPT-2 124M in about 90 minutes on 8 A100s: 231k tokens/s each, with kernels
// of its own.
TEST(Published, Gpt2OnEightA100s) {
  const Workload workload = workload_of("gpt2", 1024, TrainingProgram::lockstep_fused);
  const TrainingSetting setting{.strategy = SplitStrategy::ddp, .gpus = 8, .micro_batch = 64};

  const StepTime time = time_of(footprint_of(workload), setting, 1024, NumberFormat::bf16,
                                machine_of("A100-80GB", 8));

  EXPECT_NEAR(64 * 1024 / time.step_ms() * 1e3 / 231e3, 1, 0.2);
}

// Published guides: 1.8-1.9x on 2 GPUs, 3.5-3.8x on 4, 7.5x on 8.
TEST(Published, SpeedupsOfDdp) {
  const Workload workload = workload_of("gpt2-medium", 1024, TrainingProgram::pytorch);
  const Footprint footprint = footprint_of(workload);
  const double alone =
      time_of(footprint, {.micro_batch = 8}, 1024, NumberFormat::bf16, machine_of("A100-80GB", 8))
          .step_ms();
  struct Speedup {
    int gpus;
    double from;
    double to;
  };
  for (const auto& [gpus, from, to] : {Speedup{2, 1.8, 2.0}, {4, 3.5, 3.95}, {8, 7.0, 7.8}}) {
    const TrainingSetting setting{.strategy = SplitStrategy::ddp, .gpus = gpus, .micro_batch = 8};
    const double speedup =
        gpus * alone /
        time_of(footprint, setting, 1024, NumberFormat::bf16, machine_of("A100-80GB", 8)).step_ms();
    EXPECT_GT(speedup, from) << gpus;
    EXPECT_LT(speedup, to) << gpus;
  }
}

TEST(Communication, IsThatOfTheRing) {
  const Footprint footprint = footprint_of(workload_of("gpt2", 1024, TrainingProgram::pytorch));
  const double gradients = footprint.gradients_bytes;

  EXPECT_EQ(traffic_of(footprint, {.strategy = SplitStrategy::single}, 8).near_bytes, 0);
  EXPECT_DOUBLE_EQ(traffic_of(footprint, {.strategy = SplitStrategy::ddp, .gpus = 4}, 8).near_bytes,
                   2 * 0.75 * gradients);
  EXPECT_DOUBLE_EQ(traffic_of(footprint, {.strategy = SplitStrategy::ddp, .gpus = 4}, 2).far_bytes,
                   2 * 0.75 * gradients);
  // Twice the half-precision weights and once the gradients: with gradients in fp32 1.0 of DDP's
  // bytes, 1.5 where both are of one size.
  const TrainingSetting sharded{.strategy = SplitStrategy::fsdp, .gpus = 4, .group = 4};
  EXPECT_DOUBLE_EQ(traffic_of(footprint, sharded, 8).near_bytes,
                   0.75 * (2 * footprint.casts_bytes + gradients));
  TrainingSetting four_passes = sharded;
  four_passes.accumulation = 4;
  EXPECT_GT(traffic_of(footprint, four_passes, 8).near_bytes,
            2 * traffic_of(footprint, sharded, 8).near_bytes);
  const Traffic hybrid =
      traffic_of(footprint, {.strategy = SplitStrategy::hybrid_fsdp, .gpus = 16, .group = 8}, 8);
  EXPECT_DOUBLE_EQ(hybrid.near_bytes, 0.875 * (2 * footprint.casts_bytes + gradients))
      << "weights stay in the node";
  EXPECT_DOUBLE_EQ(hybrid.far_bytes, 2 * 0.5 * gradients) << "all its GPUs' shares together";
}

TEST(Communication, ThatIsShorterThanBackwardIsHiddenButForItsLastBucket) {
  EXPECT_DOUBLE_EQ(exposed_by_ddp(10, 100, 0.1), 1);
  EXPECT_DOUBLE_EQ(exposed_by_ddp(200, 100, 0.1), 110) << "nine tenths of backward hide something";
  EXPECT_DOUBLE_EQ(exposed_by_ddp(10, 100, 1), 10) << "one bucket is full when backward is over";
}

TEST(BatchRoom, IsHowManyTimesTheBatchWouldFit) {
  // GPT-2 124M in PyTorch on an H200, batch 16: 15.6 GB at the peak, 1.99 between steps; batch 128
  // would take 111 GB, 160 139.
  const auto room = batch_room(1.99e9, 15.6e9, 150.7e9);
  ASSERT_TRUE(room);
  EXPECT_NEAR(*room * 16, 156, 12);

  EXPECT_FALSE(batch_room(1.99e9, 2.0e9, 150.7e9))
      << "a peak that does not stand out tells nothing of a sample";
  EXPECT_FALSE(batch_room(5e9, 200e9, 150.7e9));
  EXPECT_LT(*batch_room(120e9, 148e9, 150.7e9), 1) << "no slack is left";
}

TEST(Memory, IsNotFreedByMorePasses) {
  const Footprint footprint = footprint_of(workload_of("gpt2", 1024, TrainingProgram::pytorch));
  const auto total = [&](std::int64_t micro, std::int64_t passes) {
    return memory_of(footprint, {.micro_batch = micro, .accumulation = passes}, 1024,
                     machine_of("H200-141GB"))
        .total_bytes();
  };

  EXPECT_GE(total(8, 4), total(8, 1));
  EXPECT_LT(total(2, 4), total(8, 1));
}

TEST(Calibration, CorrectsComputeAndWhatDependsOnTheBatch) {
  const Footprint footprint = footprint_of(workload_of("gpt2", 1024, TrainingProgram::pytorch));
  const PlannedMachine machine = machine_of("H200-141GB");
  const TrainingSetting setting{.micro_batch = 16};
  const Calibration slower{.compute = 1.5, .memory = 1.2};

  EXPECT_NEAR(time_of(footprint, setting, 1024, NumberFormat::bf16, machine, slower).step_ms(),
              1.5 * time_of(footprint, setting, 1024, NumberFormat::bf16, machine).step_ms(), 1e-6);
  const MemoryParts plain = memory_of(footprint, setting, 1024, machine);
  const MemoryParts corrected = memory_of(footprint, setting, 1024, machine, slower);
  EXPECT_DOUBLE_EQ(corrected.weights_bytes, plain.weights_bytes);
  EXPECT_DOUBLE_EQ(corrected.activations_bytes, 1.2 * plain.activations_bytes);
}

}  // namespace
}  // namespace lockstep
