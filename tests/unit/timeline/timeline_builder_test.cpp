#include "timeline/timeline_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/sample_recording.hpp"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using testing::plateau;
using testing::steady_sample;
using testing::two_gpu_machine;

TimelineBuilder builder() { return {two_gpu_machine(), SourceKind::recording, "test"}; }

Record tick(double t_ms, GpuSample sample) { return {t_ms, GpuTick{std::move(sample)}}; }

TEST(Timeline, GivesEveryQuantityItsOwnTimes) {
  TimelineBuilder build = builder();
  GpuSample fast;
  fast.busy = 0.5;
  GpuSample slow = fast;
  slow.temperature_c = 50.0;
  build.add(tick(0, slow));
  build.add(tick(100, fast));
  build.add(tick(200, fast));

  const Timeline timeline = build.build();

  EXPECT_THAT(timeline.gpus[0].busy.t_ms, ElementsAre(0, 100, 200));
  EXPECT_THAT(timeline.gpus[0].temperature_c.t_ms, ElementsAre(0));
}

TEST(Timeline, PutsEveryPowerSampleAtItsOwnTime) {
  TimelineBuilder build = builder();
  GpuSample given;
  given.power_samples = PowerSamples{{1, 2, 3}, 20, 10};
  GpuSample by_end;
  by_end.power_samples = PowerSamples{{4, 5}, 20, std::nullopt};
  build.add(tick(100, given));
  build.add(tick(200, by_end));

  const Timeline timeline = build.build();

  EXPECT_THAT(timeline.gpus[0].power_samples_mw.t_ms, ElementsAre(10, 30, 50, 180, 200));
  EXPECT_THAT(timeline.gpus[0].power_samples_mw.values, ElementsAre(1, 2, 3, 4, 5));
}

TEST(Timeline, MarksAGapAndFillsNothing) {
  TimelineBuilder build = builder();
  for (const Record& record : plateau({0.5, 0.5}, 1)) build.add(record);
  for (Record record : plateau({0.5, 0.5}, 1)) {
    record.t_ms += 5000;
    build.add(record);
  }

  const Timeline timeline = build.build();

  ASSERT_EQ(timeline.gaps.size(), 1U);
  EXPECT_EQ(timeline.gaps[0].from_ms, 1000);
  EXPECT_EQ(timeline.gaps[0].to_ms, 5000);
  EXPECT_EQ(timeline.gpus[0].busy.size(), 22U);
}

TEST(Timeline, AJitteringPeriodIsNoGap) {
  TimelineBuilder build = builder();
  for (int i = 0; i < 50; ++i) {
    GpuSample sample;
    sample.busy = 0.5;
    build.add(tick(i * 100 + (i % 3) * 30, sample));
  }

  EXPECT_TRUE(build.build().gaps.empty());
}

TEST(Timeline, ThreeMachinesThatTickOneAfterTheOtherHaveNoGaps) {
  TimelineBuilder build = builder();
  for (int i = 0; i < 50; ++i)
    for (int host = 0; host < 3; ++host) {
      GpuSample sample;
      sample.index = host;
      sample.busy = 0.5;
      // one of them is silent for two seconds: the others are not
      if (host == 2 && i > 20 && i < 40) continue;
      build.add(tick(i * 100 + host * 0.5, sample));
    }

  EXPECT_TRUE(build.build().gaps.empty());
}

TEST(Timeline, SaysWhatWasAskedForAndNeverHad) {
  TimelineBuilder build = builder();
  GpuSample sample;
  sample.busy = 0.5;
  sample.sm = Reading<double>::not_supported();
  build.add(tick(0, sample));

  const Timeline timeline = build.build();

  ASSERT_EQ(timeline.gpus[0].missing.size(), 1U);
  EXPECT_EQ(timeline.gpus[0].missing[0].signal, "sm");
}

TEST(Timeline, AValueNotRenewedForLongIsStale) {
  TimelineBuilder build = builder();
  GpuSample both;
  both.busy = 0.5;
  both.sm_clock_mhz = 1500.0;
  GpuSample only_busy;
  only_busy.busy = 0.5;
  for (int i = 0; i < 5; ++i) build.add(tick(i * 100, both));
  for (int i = 5; i < 60; ++i) build.add(tick(i * 100, only_busy));

  const Timeline timeline = build.build();

  EXPECT_EQ(timeline.gpus[0].latest.busy.state(), ReadingState::value);
  EXPECT_EQ(timeline.gpus[0].latest.sm_clock_mhz.state(), ReadingState::stale);
  EXPECT_EQ(timeline.gpus[0].latest.sm_clock_mhz.last_value(), 1500.0)
      << "the figure stays, marked";
}

TEST(Timeline, ASilentDriversValuesGrowOld) {
  TimelineBuilder build = builder();
  for (const Record& record : plateau({0.5, 0.5}, 1)) build.add(record);

  build.advance_to(6000);

  EXPECT_EQ(build.build().gpus[1].latest.busy.state(), ReadingState::stale);
}

TEST(Timeline, TakesInAGpuThatTheHeaderDoesNotName) {
  TimelineBuilder build = builder();
  GpuSample sample;
  sample.index = 7;
  sample.busy = 0.1;
  build.add(tick(0, sample));

  EXPECT_EQ(build.build().gpus.back().info.index, 7);
}

TEST(TimelineBuilder, LeavesOutWhatIsImpossibleAndCountsIt) {
  TimelineBuilder builder(two_gpu_machine(), SourceKind::recording, "x");
  GpuSample absurd = steady_sample(0, 4.0);
  absurd.power_mw = 1e12;
  builder.add({0.0, GpuTick{absurd}});
  builder.add({100.0, GpuTick{steady_sample(0, 0.5)}});

  const Timeline timeline = builder.build();

  EXPECT_EQ(timeline.gpus[0].busy.values, (std::vector<double>{0.5})) << "400 % busy is no reading";
  EXPECT_EQ(timeline.impossible_values, 2U);
}

TEST(TimelineBuilder, LeavesOutRecordsThatGoBackInTimeOrFarBeyondIt) {
  TimelineBuilder builder(two_gpu_machine(), SourceKind::recording, "x");
  for (const double t : {1000.0, 1100.0, 300.0, 1e300, 1200.0})
    builder.add({t, GpuTick{steady_sample(0, 0.5)}});

  const Timeline timeline = builder.build();

  EXPECT_EQ(timeline.gpus[0].busy.t_ms, (std::vector<double>{1000, 1100, 1200}));
  EXPECT_EQ(timeline.backward_records, 2U);
}

}  // namespace
}  // namespace lockstep
