// What GPUs did in a step, from the rows that CUPTI would give. Times in microseconds; a step from
// 1000 to 2000.
#include "sources/probe/device_accountant.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "sources/probe/step_accountant.hpp"
#include "support/ring_writer.hpp"

namespace lockstep {
namespace {

using testing::span_at;

enum Name : std::uint32_t { kGemm = 1, kNccl = 2, kPlainGemm = 3 };

class Rows {
 public:
  explicit Rows(DeviceAccountant& accountant) : accountant_(accountant) {
    name(kGemm, "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64");
    name(kNccl, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)");
    name(kPlainGemm, "ampere_sgemm_128x64_tn");
  }
  Rows& name(std::uint32_t number, const char* text) {
    lockstep_name said{};
    said.number = number;
    std::strncpy(said.text, text, sizeof said.text - 1);
    accountant_.add(said);
    return *this;
  }
  Rows& row(lockstep_device_kind kind, std::uint64_t from_us, std::uint64_t to_us,
            std::uint32_t subject = 0, std::uint8_t device = 0, std::uint32_t bytes = 0) {
    accountant_.add(
        lockstep_device_row{from_us * 1000, static_cast<std::uint32_t>((to_us - from_us) * 1000),
                            subject, bytes, 7, device, static_cast<std::uint8_t>(kind)});
    return *this;
  }
  Rows& kernel(std::uint64_t from_us, std::uint64_t to_us, std::uint32_t name = kGemm,
               std::uint8_t device = 0) {
    return row(LOCKSTEP_DEVICE_KERNEL, from_us, to_us, name, device);
  }

 private:
  DeviceAccountant& accountant_;
};

const std::vector<HostStretch> kLaunching = {{1'000'000, 2'000'000, StepPart::forward}};

StepOnDevices step_of(DeviceAccountant& accountant,
                      const std::vector<HostStretch>& host = kLaunching) {
  return accountant.take(1'000'000, 2'000'000, host).time;
}

TEST(DeviceAccountant, GivesEveryMomentOfAGpuToOneUse) {
  DeviceAccountant accountant;
  Rows(accountant)
      .kernel(1000, 1400)
      .kernel(1300, 1600, kNccl)
      .row(LOCKSTEP_DEVICE_COPY, 1550, 1700, 2U | 3U << 8U)
      .kernel(1900, 2100);

  const StepOnDevices time = step_of(accountant);

  ASSERT_EQ(time.devices.size(), 1U);
  const DeviceTime& gpu = time.devices.front();
  EXPECT_NEAR(gpu.computes_ms, 0.5, 1e-9) << "0.4 and the begin of the last, which goes on";
  EXPECT_NEAR(gpu.collective_ms, 0.3, 1e-9);
  EXPECT_NEAR(gpu.exposed_ms, 0.2, 1e-9);
  EXPECT_NEAR(gpu.copies_ms, 0.1, 1e-9) << "0.05 of the copy lie beside the collective";
  EXPECT_NEAR(gpu.idle_ms, 0.2, 1e-9);
  EXPECT_NEAR(gpu.busy_ms() + gpu.idle_ms, 1.0, 1e-9);
  EXPECT_EQ(gpu.kernels, 3);
}

TEST(DeviceAccountant, WhatReachesIntoTheNextStepIsCountedThereToo) {
  DeviceAccountant accountant;
  Rows(accountant).kernel(1900, 2100);
  step_of(accountant);

  const StepOnDevices next = accountant.take(2'000'000, 3'000'000, {}).time;

  ASSERT_EQ(next.devices.size(), 1U);
  EXPECT_NEAR(next.devices.front().computes_ms, 0.1, 1e-9);
  EXPECT_EQ(next.devices.front().kernels, 0) << "it began before";
}

TEST(DeviceAccountant, RowsComeInAnyOrder) {
  DeviceAccountant accountant;
  Rows(accountant).kernel(1700, 1800).kernel(1100, 1200).kernel(1400, 1500);

  EXPECT_NEAR(step_of(accountant).devices.front().computes_ms, 0.3, 1e-9);
}

TEST(DeviceAccountant, IdleTimeIsGivenToWhatTheHostDid) {
  DeviceAccountant accountant;
  Rows(accountant).kernel(1300, 1500).kernel(1510, 2000);

  const StepOnDevices time = step_of(accountant, {{1'000'000, 1'250'000, StepPart::data_wait},
                                                  {1'250'000, 2'000'000, StepPart::forward}});

  EXPECT_NEAR(time.idle_ms[index_of(StepPart::data_wait)], 0.25, 1e-9);
  EXPECT_NEAR(time.idle_ms[index_of(StepPart::forward)], 0.06, 1e-9);
  EXPECT_EQ(time.launch_gaps, 2) << "the end of the first gap, and the one between the kernels";
  EXPECT_NEAR(time.launch_gaps_ms, 0.06, 1e-9);
}

TEST(DeviceAccountant, TheGpusOwnWayFromKernelToKernelIsNoLaunchGap) {
  DeviceAccountant accountant;
  Rows(accountant).kernel(1000, 1500).kernel(1502, 2000);

  EXPECT_EQ(step_of(accountant).launch_gaps, 0);
}

TEST(DeviceAccountant, OnlyWhatTheProbeCostsTheCallerIsItsOverhead) {
  DeviceAccountant accountant;
  Rows(accountant)
      .kernel(1000, 1500)
      .row(LOCKSTEP_DEVICE_OVERHEAD, 1000, 1300, 6U << 16U)
      .row(LOCKSTEP_DEVICE_OVERHEAD, 1400, 1410, 2U << 16U);

  EXPECT_NEAR(step_of(accountant).overhead_ms, 0.01, 1e-9)
      << "a full queue is the host being ahead";
}

TEST(DeviceAccountant, AGapOfMoreThanAMillisecondIsNoLaunchGap) {
  DeviceAccountant accountant;
  Rows(accountant).kernel(1000, 1001).kernel(2900, 3000);

  const StepOnDevices time =
      accountant.take(1'000'000, 3'000'000, {{1'000'000, 3'000'000, StepPart::backward}}).time;

  EXPECT_EQ(time.launch_gaps, 0);
  EXPECT_NEAR(time.idle_ms[index_of(StepPart::backward)], 1.899, 1e-9);
}

TEST(DeviceAccountant, SeesTurnsToTheMicrosecond) {
  DeviceAccountant accountant;
  Rows(accountant)
      .kernel(1000, 1400, kGemm, 0)
      .kernel(1400, 1900, kGemm, 1)
      .kernel(1900, 2000, kGemm, 0);

  const StepOnDevices time = step_of(accountant);

  EXPECT_NEAR(time.any_ms, 1.0, 1e-9);
  EXPECT_NEAR(time.exclusive_ms, 1.0, 1e-9);
  EXPECT_EQ(time.hand_overs, 2);
}

TEST(DeviceAccountant, GpusThatComputeAtOnceTakeNoTurns) {
  DeviceAccountant accountant;
  Rows(accountant).kernel(1000, 1900, kGemm, 0).kernel(1010, 1905, kGemm, 1);

  const StepOnDevices time = step_of(accountant);

  EXPECT_LT(time.exclusive_ms, 0.02);
  EXPECT_LE(time.hand_overs, 1);
}

TEST(DeviceAccountant, TellsPageableCopiesAndProductsWithoutTensorCores) {
  DeviceAccountant accountant;
  Rows(accountant)
      .row(LOCKSTEP_DEVICE_COPY, 1000, 1100, 1U | 3U << 8U, 0, 4096)
      .row(LOCKSTEP_DEVICE_COPY, 1100, 1200, 2U | 3U << 8U, 0, 4096)
      .kernel(1200, 1500, kPlainGemm)
      .kernel(1500, 1600, kGemm);

  const StepOnDevices time = step_of(accountant);

  EXPECT_NEAR(time.pageable_bytes, 4096, 1e-9);
  EXPECT_NEAR(time.pageable_ms, 0.1, 1e-9);
  EXPECT_NEAR(time.plain_matmul_ms, 0.3, 1e-9);
  EXPECT_NEAR(time.tensor_core_ms, 0.1, 1e-9);
}

TEST(DeviceAccountant, ANameThatNeverCameIsStillWork) {
  DeviceAccountant accountant;
  Rows(accountant).kernel(1000, 1500, 99);

  EXPECT_NEAR(step_of(accountant).devices.front().computes_ms, 0.5, 1e-9);
}

TEST(DeviceAccountant, DamagedRowsAreLeftOutAndCounted) {
  DeviceAccountant accountant;
  accountant.add(lockstep_device_row{0, 10, 0, 0, 0, 0, 0});
  accountant.add(lockstep_device_row{UINT64_MAX - 5, 10, 0, 0, 0, 0, 0});
  accountant.add(lockstep_device_row{1000, 10, 0, 0, 0, 0, 200});

  EXPECT_EQ(accountant.damaged(), 3U);
  EXPECT_FALSE(accountant.speaks());
}

TEST(DeviceAccountant, KeepsRowsForDrawingOnlyWhereAsked) {
  DeviceAccountant counted;
  Rows(counted).kernel(1100, 1200);
  EXPECT_TRUE(step_of(counted).work.empty());

  DeviceAccountant kept(DeviceAccountant::Work::kept);
  Rows(kept).kernel(1100, 1200).row(LOCKSTEP_DEVICE_COPY, 1300, 1400, 1U | 3U << 8U);
  const StepOnDevices time = step_of(kept);
  ASSERT_EQ(time.work.size(), 2U);
  EXPECT_NEAR(time.work[0].from_ms, 0.1, 1e-9);
  EXPECT_EQ(*time.work[1].name, "Memcpy (Pageable -> Device)");
}

// A step of the host's, with what the GPU did beside it.
class StepBesideAGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    accountant_.add(
        span_at(LOCKSTEP_SPAN_OPTIMIZER, 900, 1000, "SGD.step", 9, LOCKSTEP_FLAG_STEP_END));
  }
  // With all that the GPU did told.
  StepMark whole_step() {
    Rows(accountant_.device()).kernel(2'000'000, 2'000'100);
    return step();
  }
  StepMark step() {
    accountant_.add(
        span_at(LOCKSTEP_SPAN_OPTIMIZER, 1900, 2000, "SGD.step", 9, LOCKSTEP_FLAG_STEP_END));
    auto steps = accountant_.take(StepAccountant::Until::end);
    return steps.empty() ? StepMark() : steps.front().mark;
  }
  StepAccountant accountant_;
};

TEST_F(StepBesideAGpu, WaitingThatHidesBehindItsWorkIsHidden) {
  accountant_.add(span_at(LOCKSTEP_SPAN_DATA_WAIT, 1000, 1500, "DataLoader", 3));
  Rows(accountant_.device()).kernel(1000, 1400).kernel(1600, 2000);

  const StepMark mark = whole_step();

  ASSERT_TRUE(mark.detail);
  const auto wait = std::ranges::find_if(mark.detail->pieces, [](const StepPiece& piece) {
    return piece.part == StepPart::data_wait;
  });
  ASSERT_NE(wait, mark.detail->pieces.end());
  EXPECT_NEAR(wait->hidden_ms, 0.4, 1e-9);
  EXPECT_NEAR(*mark.gpu_idle_ms, 0.2, 1e-9);
  ASSERT_TRUE(mark.on_devices);
  EXPECT_NEAR(mark.on_devices->idle_ms[index_of(StepPart::data_wait)], 0.1, 1e-9);
}

TEST_F(StepBesideAGpu, AWaitInTheDriverThatNoHookSawIsSyncOnTheLineAroundIt) {
  accountant_.add(span_at(LOCKSTEP_SPAN_FORWARD, 1100, 1600, "Net", 12));
  Rows(accountant_.device()).kernel(1150, 1500).row(LOCKSTEP_DEVICE_WAIT, 1200, 1510);

  const StepMark mark = whole_step();

  EXPECT_NEAR(*mark.spans_ms[index_of(StepPart::sync)], 0.31, 1e-9);
  EXPECT_NEAR(*mark.spans_ms[index_of(StepPart::forward)], 0.19, 1e-9);
}

TEST_F(StepBesideAGpu, AWaitThatTheHostProbeSawIsOneToo) {
  accountant_.add(span_at(LOCKSTEP_SPAN_FORWARD, 1100, 1600, "Net", 12));
  accountant_.add_host(span_at(LOCKSTEP_SPAN_SYNC, 1200, 1510, "cudaStreamSynchronize"));
  Rows(accountant_.device()).kernel(1150, 1500);

  const StepMark mark = whole_step();

  EXPECT_NEAR(*mark.spans_ms[index_of(StepPart::sync)], 0.31, 1e-9);
  EXPECT_NEAR(*mark.spans_ms[index_of(StepPart::forward)], 0.19, 1e-9);
  ASSERT_TRUE(mark.on_devices);
  EXPECT_NEAR(mark.on_devices->waits_ms, 0.31, 1e-9);
  EXPECT_EQ(mark.on_devices->waits, 1);
}

TEST_F(StepBesideAGpu, AWaitIsSeenBetweenTheWindowsOfTheCudaProbeAndWithoutIt) {
  accountant_.add(span_at(LOCKSTEP_SPAN_FORWARD, 1100, 1600, "Net", 12));
  accountant_.add_host(span_at(LOCKSTEP_SPAN_SYNC, 1200, 1510, "cudaStreamSynchronize"));

  EXPECT_NEAR(*whole_step().spans_ms[index_of(StepPart::sync)], 0.31, 1e-9);
}

TEST_F(StepBesideAGpu, AWaitOutsideAllThatHooksKnowIsSyncWithoutALine) {
  accountant_.add(span_at(LOCKSTEP_SPAN_FORWARD, 1100, 1300, "Net", 12));
  accountant_.add_host(span_at(LOCKSTEP_SPAN_SYNC, 1400, 1700, "cudaStreamSynchronize"));

  const StepMark mark = whole_step();

  EXPECT_NEAR(*mark.spans_ms[index_of(StepPart::sync)], 0.3, 1e-9);
  const auto wait = std::ranges::find_if(
      mark.detail->pieces, [](const StepPiece& piece) { return piece.part == StepPart::sync; });
  ASSERT_NE(wait, mark.detail->pieces.end());
  EXPECT_EQ(wait->place->file, "");
}

TEST_F(StepBesideAGpu, AutogradsThreadsWaitInABackwardPassAndOthersForThemselves) {
  const auto wait = [&](std::uint64_t from_us, std::uint64_t to_us, std::uint32_t flags) {
    lockstep_span_record span =
        span_at(LOCKSTEP_SPAN_SYNC, from_us, to_us, "cudaStreamSynchronize");
    span.flags = flags;
    accountant_.add_host(span);
  };
  accountant_.add(span_at(LOCKSTEP_SPAN_FORWARD, 1100, 1300, "Net", 12));
  accountant_.add(span_at(LOCKSTEP_SPAN_BACKWARD, 1300, 1500, "backward", 13));
  wait(1150, 1250, LOCKSTEP_FLAG_AUTOGRAD);
  wait(1320, 1390, LOCKSTEP_FLAG_OTHER_THREAD);
  wait(1400, 1450, LOCKSTEP_FLAG_AUTOGRAD);
  wait(1600, 1900, LOCKSTEP_FLAG_OTHER_THREAD);

  EXPECT_NEAR(*whole_step().spans_ms[index_of(StepPart::sync)], 0.05, 1e-9);
}

TEST_F(StepBesideAGpu, AWaitOutsideAllThatHooksKnowIsNobodysWhereCuptiDoesNotSayWhose) {
  accountant_.add(span_at(LOCKSTEP_SPAN_FORWARD, 1100, 1300, "Net", 12));
  Rows(accountant_.device()).kernel(1150, 1500).row(LOCKSTEP_DEVICE_WAIT, 1600, 1900);

  EXPECT_NEAR(*whole_step().spans_ms[index_of(StepPart::sync)], 0, 1e-9);
}

TEST_F(StepBesideAGpu, AWaitThatBothProbesTellIsOne) {
  accountant_.add(span_at(LOCKSTEP_SPAN_FORWARD, 1100, 1600, "Net", 12));
  Rows(accountant_.device()).kernel(1150, 1500).row(LOCKSTEP_DEVICE_WAIT, 1201, 1509);
  accountant_.add_host(span_at(LOCKSTEP_SPAN_SYNC, 1200, 1510, "cudaStreamSynchronize"));
  Rows(accountant_.device()).row(LOCKSTEP_DEVICE_WAIT, 1201, 1509);

  const StepMark mark = whole_step();

  EXPECT_EQ(mark.on_devices->waits, 1);
  EXPECT_NEAR(*mark.spans_ms[index_of(StepPart::sync)], 0.31, 1e-9);
}

TEST_F(StepBesideAGpu, AWaitWithinAnItemIsNotCountedTwice) {
  accountant_.add(span_at(LOCKSTEP_SPAN_SYNC, 1200, 1520, "Tensor.item", 14));
  Rows(accountant_.device()).kernel(1150, 1500).row(LOCKSTEP_DEVICE_WAIT, 1205, 1510);

  EXPECT_NEAR(*whole_step().spans_ms[index_of(StepPart::sync)], 0.32, 1e-9);
}

TEST_F(StepBesideAGpu, HiddenCollectivesAreTheGpusOwn) {
  Rows(accountant_.device()).kernel(1000, 1800).kernel(1200, 1900, kNccl);

  EXPECT_NEAR(*whole_step().spans_ms[index_of(StepPart::collective_hidden)], 0.6, 1e-9);
}

TEST_F(StepBesideAGpu, IsKeptBackUntilTheGpusRowsHaveCome) {
  Rows(accountant_.device()).kernel(1000, 1400);
  accountant_.add(
      span_at(LOCKSTEP_SPAN_OPTIMIZER, 1900, 2000, "SGD.step", 9, LOCKSTEP_FLAG_STEP_END));
  EXPECT_TRUE(accountant_.take(StepAccountant::Until::settled).empty());

  Rows(accountant_.device()).kernel(1'100'000, 1'100'100);
  EXPECT_EQ(accountant_.take(StepAccountant::Until::settled).size(), 1U);
}

TEST_F(StepBesideAGpu, IsToldWithoutTheGpuWhereTheProbeHadStopped) {
  Rows(accountant_.device()).kernel(1000, 1400);
  accountant_.device().end();
  accountant_.add(
      span_at(LOCKSTEP_SPAN_OPTIMIZER, 1900, 2000, "SGD.step", 9, LOCKSTEP_FLAG_STEP_END));

  const auto steps = accountant_.take(StepAccountant::Until::settled);

  ASSERT_EQ(steps.size(), 1U) << "nothing more will come: it is not kept back";
  EXPECT_FALSE(steps.front().mark.on_devices) << "what nobody saw is not idle";
}

TEST_F(StepBesideAGpu, IsToldWithoutTheGpuWhereItsRowsHadNotAllCome) {
  Rows(accountant_.device()).kernel(1000, 1400).kernel(1900, 2100);

  EXPECT_FALSE(step().on_devices);
}

TEST(DeviceAccountant, KnowsStepsThatLieWithinAWindow) {
  DeviceAccountant accountant;
  accountant.closed(1'000'000);
  accountant.rested(4'000'000);
  EXPECT_FALSE(accountant.may_learn_of(4'000'000)) << "nothing was on: nobody need wait";
  EXPECT_FALSE(accountant.covers(2'000'000, 3'000'000));

  accountant.opened(5'000'000);
  Rows(accountant).kernel(5200, 6100).kernel(6100, 8300);
  EXPECT_TRUE(accountant.may_learn_of(7'000'000)) << "it is still open";
  Rows(accountant).kernel(20'000, 21'000);  // of the next one, which came before this was told
  accountant.closed(8'000'000);
  EXPECT_FALSE(accountant.may_learn_of(8'000'000));
  accountant.opened(20'000'000);

  EXPECT_FALSE(accountant.covers(5'000'000, 6'000'000))
      << "what was launched before it opened may have run until its first kernel";
  EXPECT_TRUE(accountant.covers(5'200'000, 8'000'000));
  EXPECT_TRUE(accountant.covers(7'000'000, 8'300'000)) << "launched within it";
  EXPECT_FALSE(accountant.covers(8'000'000, 9'000'000));
}

TEST(DeviceAccountant, KnowsTheTimeBeforeTheFirstWindowAndUpToTheEnd) {
  DeviceAccountant accountant;
  Rows(accountant).kernel(1000, 1500).kernel(1500, 2000);
  accountant.closed(2'000'000);
  EXPECT_TRUE(accountant.covers(1'000'000, 2'000'000)) << "it was on from the start";

  accountant.opened(3'000'000);
  Rows(accountant).kernel(3000, 4000).kernel(4000, 5000);
  accountant.end();

  EXPECT_TRUE(accountant.covers(3'000'000, 4'000'000)) << "the program ended within a window";
}

TEST(DeviceAccountant, KnowsWhereCuptiCameWithTheFirstWindowAndStayed) {
  DeviceAccountant accountant;
  accountant.rested(2'000'000);
  EXPECT_TRUE(accountant.speaks());
  EXPECT_FALSE(accountant.may_learn_of(2'000'000));
  EXPECT_FALSE(accountant.covers(1'000'000, 2'000'000)) << "it was not on from the start";

  accountant.attached(3'000'000);
  accountant.opened(3'100'000);
  Rows(accountant).kernel(3200, 3900).kernel(3900, 5200);
  accountant.closed(5'000'000);
  accountant.rested(9'000'000);

  EXPECT_FALSE(accountant.is_there(1'000'000, 3'000'000));
  EXPECT_TRUE(accountant.is_there(2'900'000, 3'050'000));
  EXPECT_TRUE(accountant.covers(4'000'000, 5'000'000));
  EXPECT_TRUE(accountant.is_there(8'000'000, 9'000'000)) << "behind its window, too";
}

TEST(DeviceAccountant, WhereItIsOnAllTheTimeNoStepWaitsForAWindowsEnd) {
  DeviceAccountant accountant;
  accountant.attached(1'000'000);
  accountant.opened(1'000'000);
  Rows(accountant).kernel(1000, 2000).kernel(2000, 3000).kernel(1'100'000, 1'100'100);

  EXPECT_FALSE(accountant.may_learn_of(3'000'000));
  EXPECT_TRUE(accountant.covers(2'000'000, 3'000'000));
}

TEST(DeviceAccountant, KnowsWhenCuptiLeft) {
  DeviceAccountant accountant;
  accountant.rested(500'000);
  accountant.attached(1'000'000);
  accountant.opened(1'000'000);
  accountant.closed(2'000'000);
  accountant.left(2'500'000);
  accountant.attached(7'000'000);

  EXPECT_TRUE(accountant.is_there(1'500'000, 3'000'000));
  EXPECT_FALSE(accountant.is_there(2'500'000, 7'000'000));
  EXPECT_TRUE(accountant.is_there(6'000'000, 8'000'000));
}

}  // namespace
}  // namespace lockstep
