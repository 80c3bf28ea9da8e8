// B501 to B503: batch, memory and precision.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/paths.hpp"
#include "unit/detectors/finding_checks.hpp"

namespace lockstep {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A kernel always runs, a third of the SMs have work, and half of the memory is free.
Signals small_batch(int gpus) {
  Signals signals = healthy_ranks(gpus);
  for (GpuSignals& gpu : signals.gpus) gpu.sm = 0.35;
  for (GpuInJob& member : signals.jobs.front().members) member.memory_fraction = 0.45;
  draw_power(signals, 0.35);
  return signals;
}

Signals without_sm(Signals signals) {
  for (GpuSignals& gpu : signals.gpus) gpu.sm.reset();
  return signals;
}

Signals fp32_without_tf32(int gpus) {
  Signals signals = healthy_ranks(gpus);
  for (GpuSignals& gpu : signals.gpus) gpu.tensor = 0.008;
  return signals;
}

TEST(BatchTooSmall, IsFoundWhereFewSmsWorkAndMemoryIsFree) {
  const auto findings = found_by(find_batch_too_small, small_batch(2));

  ASSERT_TRUE(is_one(findings, FindingCode::batch_too_small, 0.65, 0.72))
      << "35 % of the SMs at work bring a third of what a full GPU does";
  EXPECT_TRUE(is_stood_behind(findings.front()));
  EXPECT_THAT(findings.front().gpus, ElementsAre(0, 1));
}

TEST(BatchTooSmall, CostsWhatALargerBatchBroughtOnAnH200) {
  std::ifstream stream(std::filesystem::path(source_tree()) / "tests/recordings/batch_curve.json");
  const auto rows = nlohmann::json::parse(stream);
  const auto is_gpt2 = [](const nlohmann::json& row) {
    return row["width"] == 768 && row["length"] == 1024;
  };
  double most = 0;
  for (const auto& row : rows)
    if (is_gpt2(row)) most = std::max(most, row["samples_s"].get<double>());
  int checked = 0;
  for (const auto& row : rows) {
    if (!is_gpt2(row) || row["sm"].get<double>() > 0.4) continue;
    Signals signals = small_batch(2);
    for (GpuSignals& gpu : signals.gpus) gpu.sm = row["sm"].get<double>();
    const auto findings = found_by(find_batch_too_small, signals);
    ASSERT_EQ(findings.size(), 1U);
    EXPECT_NEAR(findings.front().lost_throughput, 1 - row["samples_s"].get<double>() / most, 0.1)
        << row;
    ++checked;
  }
  EXPECT_GE(checked, 2);
}

TEST(BatchTooSmall, IsFoundWhereTheGpusRecordsShowTheHostTooSlow) {
  Signals signals = small_batch(1);
  load_gpu(signals, 0, 0.28, 0.05);
  signals.gpus.front().sm = 0.16;
  RankDevices rank;
  rank.devices = {{.device = 0, .computes = 0.2, .idle = 0.8}};
  rank.idle[index_of(StepPart::backward)] = 0.7;
  StepSignals steps;
  steps.count = 100;
  steps.devices = DeviceSignals{};
  steps.devices->steps = 7;
  steps.devices->ranks = {rank};
  signals.jobs.front().steps = steps;
  EXPECT_THAT(found_by(find_batch_too_small, signals), IsEmpty()) << "the model may be small";

  signals.jobs.front().settings = ProbeSettings{};
  signals.jobs.front().settings->loaders = {{.batch = 1}};
  EXPECT_TRUE(
      is_one(found_by(find_batch_too_small, signals), FindingCode::batch_too_small, 0.85, 0.9));

  RankDevices& waits = signals.jobs.front().steps->devices->ranks.front();
  std::swap(waits.idle[index_of(StepPart::backward)], waits.idle[index_of(StepPart::data_wait)]);
  EXPECT_THAT(found_by(find_batch_too_small, signals), IsEmpty()) << "it waits for data";
}

TEST(BatchTooSmall, IsFoundWhereTheHostCannotLaunchItsKernelsInTime) {
  Signals signals = small_batch(1);
  load_gpu(signals, 0, 0.28, 0.05);
  signals.gpus.front().sm = 0.16;
  EXPECT_THAT(found_by(find_batch_too_small, signals), IsEmpty()) << "why it rests is not known";

  HostDoing doing;
  doing.stacks_in_all = 100;
  doing.all_stacks = {{StepPart::backward, 0.5, {}, 50}, {StepPart::forward, 0.4, {}, 40}};
  signals.jobs.front().host.doing = doing;
  EXPECT_TRUE(
      is_one(found_by(find_batch_too_small, signals), FindingCode::batch_too_small, 0.85, 0.9));

  signals.jobs.front().host.doing->all_stacks.push_back({StepPart::sync, 0.2, {}, 20});
  EXPECT_THAT(found_by(find_batch_too_small, signals), IsEmpty()) << "it waits for the GPU";
}

TEST(BatchTooSmall, IsSuspectedOnlyByPowerWhereSmIsUnknown) {
  const auto findings = found_by(find_batch_too_small, without_sm(small_batch(2)));

  ASSERT_EQ(findings.size(), 1U);
  EXPECT_FALSE(is_stood_behind(findings.front()));
}

TEST(BatchTooSmall, IsNotSuspectedOfAHealthySmallModel) {
  Signals signals = without_sm(small_batch(2));
  draw_power(signals, 0.42);

  EXPECT_THAT(found_by(find_batch_too_small, signals), IsEmpty())
      << "real healthy runs sit at 42 % of the limit";
}

TEST(BatchTooSmall, IsNotSaidWhereTheGpuIsFullOrHasNoRoom) {
  Signals working = small_batch(2);
  for (GpuSignals& gpu : working.gpus) gpu.sm = 0.45;
  Signals no_room = small_batch(2);
  no_room.jobs.front().members[1].memory_fraction = 0.55;
  Signals rests = small_batch(2);
  for (const int gpu : {0, 1}) load_gpu(rests, gpu, 0.7, 0.05);
  Signals hard_work = small_batch(2);
  draw_power(hard_work, 0.8);

  EXPECT_THAT(found_by(find_batch_too_small, working), IsEmpty());
  EXPECT_THAT(found_by(find_batch_too_small, rests), IsEmpty())
      << "empty GPUs wait for something else";
  EXPECT_THAT(found_by(find_batch_too_small, no_room), IsEmpty()) << "a larger batch would not fit";
  EXPECT_THAT(found_by(find_batch_too_small, hard_work), IsEmpty()) << "whatever its SMs say";
}

TEST(BatchTooSmall, IsNotSaidOfRanksThatWait) {
  Signals stuck = small_batch(2);
  stuck.jobs.front().longest_hollow_ms = 12'000;
  Signals missing = small_batch(2);
  set_environment(missing, "LOCAL_WORLD_SIZE", "4");

  EXPECT_THAT(found_by(find_batch_too_small, stuck), IsEmpty());
  EXPECT_THAT(found_by(find_batch_too_small, missing), IsEmpty())
      << "they wait for ranks that are not there";
}

TEST(BatchTooSmall, IsNotSaidWithoutMemoryOrWithoutPowerAndSm) {
  Signals no_memory = small_batch(2);
  for (GpuInJob& member : no_memory.jobs.front().members) member.memory_fraction.reset();
  Signals no_power = without_sm(small_batch(2));
  for (GpuInJob& member : no_power.jobs.front().members) member.power_of_limit.reset();

  EXPECT_THAT(found_by(find_batch_too_small, no_memory), IsEmpty());
  EXPECT_THAT(found_by(find_batch_too_small, no_power), IsEmpty());
}

TEST(MemoryNearlyFull, NamesTheGpuThatIs) {
  Signals signals = healthy_ranks(4);
  signals.gpus[2].memory_highest_fraction = 0.985;
  signals.gpus.push_back(signals.gpus[2]);  // another user's, and as full
  signals.gpus.back().index = 4;

  const auto findings = found_by(find_memory_nearly_full, signals);

  ASSERT_TRUE(is_one(findings, FindingCode::memory_nearly_full, 0, 0.05));
  EXPECT_TRUE(is_stood_behind(findings.front())) << "a fault, whatever it costs";
  EXPECT_THAT(findings.front().gpus, ElementsAre(2));
}

TEST(MemoryNearlyFull, IsNotSaidAtNinetyPercentOrJustUnderTheLine) {
  for (const double used : {0.9, 0.96}) {
    Signals signals = healthy_ranks(2);
    for (GpuSignals& gpu : signals.gpus) gpu.memory_highest_fraction = used;

    EXPECT_THAT(found_by(find_memory_nearly_full, signals), IsEmpty()) << used;
  }
}

TEST(MemoryNearlyFull, IsNotSaidOfProgramsThatTakeAllOnPurpose) {
  Signals jax = healthy_ranks(2);
  for (GpuSignals& gpu : jax.gpus) gpu.memory_highest_fraction = 0.985;
  set_libraries(jax, {"jax"});

  EXPECT_THAT(found_by(find_memory_nearly_full, jax), IsEmpty());
  EXPECT_THAT(found_by(find_memory_nearly_full, server(2)), IsEmpty());
}

TEST(MemoryNearlyFull, IsNotSaidOfUnknownOrBrokenReadings) {
  for (const std::optional<double> used : {std::optional<double>(), std::optional(1.4)}) {
    Signals signals = healthy_ranks(2);
    for (GpuSignals& gpu : signals.gpus) gpu.memory_highest_fraction = used;

    EXPECT_THAT(found_by(find_memory_nearly_full, signals), IsEmpty()) << used.value_or(-1);
  }
}

TEST(TensorCoresUnused, IsFoundWhereTheSmsAreFullAndTheTensorPipeIsNot) {
  const auto findings = found_by(find_tensor_cores_unused, fp32_without_tf32(2));

  ASSERT_TRUE(is_one(findings, FindingCode::tensor_cores_unused, 0.3, 0.5));
  EXPECT_TRUE(is_stood_behind(findings.front()));
  EXPECT_THAT(findings.front().gpus, ElementsAre(0, 1));
}

TEST(TensorCoresUnused, IsAlsoAFullGpuWithALittleTensorWorkAndQuietMemory) {
  Signals attention = fp32_without_tf32(2);
  for (GpuSignals& gpu : attention.gpus) {
    gpu.tensor = 0.028;
    gpu.sm = 0.96;
    gpu.dram = 0.12;
  }
  Signals moves_memory = attention;
  for (GpuSignals& gpu : moves_memory.gpus) gpu.dram = 0.6;

  EXPECT_THAT(found_by(find_tensor_cores_unused, attention), ::testing::SizeIs(1));
  EXPECT_THAT(found_by(find_tensor_cores_unused, moves_memory), IsEmpty());
}

TEST(TensorCoresUnused, CostsWhatTheGpusTableAndItsMemoryAllow) {
  Signals signals = fp32_without_tf32(2);
  for (GpuSignals& gpu : signals.gpus) {
    gpu.tensor = 0.002;
    gpu.sm = 0.96;
    gpu.dram = 0.12;
    gpu.tensor_core_gain = 12.6;  // an H200
  }
  // GPT-2 124M: bf16 took 83 % off the step.
  EXPECT_TRUE(is_one(found_by(find_tensor_cores_unused, signals), FindingCode::tensor_cores_unused,
                     0.8, 0.86));
  for (GpuSignals& gpu : signals.gpus) gpu.tensor_core_gain = 2;  // an RTX 4090
  EXPECT_TRUE(is_one(found_by(find_tensor_cores_unused, signals), FindingCode::tensor_cores_unused,
                     0.4, 0.55));
}

TEST(TensorCoresUnused, IsNotSaidOfMixedPrecisionOrOfGpusThatHardlyCompute) {
  Signals mixed = fp32_without_tf32(2);
  for (GpuSignals& gpu : mixed.gpus) gpu.tensor = 0.015;
  Signals waits = fp32_without_tf32(2);
  for (GpuSignals& gpu : waits.gpus) gpu.sm = 0.3;
  Signals one_of_two = fp32_without_tf32(2);
  one_of_two.gpus[1].tensor = 0.3;

  Signals stuck = fp32_without_tf32(2);
  for (GpuSignals& gpu : stuck.gpus) {
    gpu.info.power_limit_mw = 700'000;
    gpu.power_highest_mw = 190'000;
  }

  EXPECT_THAT(found_by(find_tensor_cores_unused, mixed), IsEmpty());
  EXPECT_THAT(found_by(find_tensor_cores_unused, waits), IsEmpty());
  EXPECT_THAT(found_by(find_tensor_cores_unused, stuck), IsEmpty())
      << "a collective that waits fills SMs and draws nothing";
  EXPECT_THAT(found_by(find_tensor_cores_unused, one_of_two), IsEmpty())
      << "ranks run the same program";
}

TEST(TensorCoresUnused, IsNotSaidWithoutTheCounters) {
  Signals no_tensor = fp32_without_tf32(2);
  no_tensor.gpus[1].tensor.reset();

  EXPECT_THAT(found_by(find_tensor_cores_unused, no_tensor), IsEmpty());
  EXPECT_THAT(found_by(find_tensor_cores_unused, without_sm(fp32_without_tf32(2))), IsEmpty());
}

}  // namespace
}  // namespace lockstep
