#include "signals/gpu_signals.hpp"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

Timeline with_busy(std::vector<double> t_ms, std::vector<double> busy) {
  Timeline timeline;
  timeline.gpus.emplace_back();
  timeline.gpus[0].busy = {std::move(t_ms), std::move(busy)};
  return timeline;
}

TEST(GpuMeans, WeighEachReadingByTheTimeItStandsFor) {
  // One second at 0 %, one at 100 %, then eight at 0 %, read at uneven times.
  const Timeline timeline = with_busy({0, 1000, 9000}, {0.0, 1.0, 0.0});

  EXPECT_DOUBLE_EQ(*gpu_means(timeline).gpus[0].busy_fraction, 0.1);
}

TEST(GpuMeans, CountTheFirstReadingAsTheOthers) {
  const Timeline timeline = with_busy({0, 1000, 2000, 3000}, {1.0, 0.0, 0.0, 0.0});

  EXPECT_DOUBLE_EQ(*gpu_means(timeline).gpus[0].busy_fraction, 0.25);
}

TEST(GpuMeans, LeaveGapsOut) {
  Timeline timeline = with_busy({0, 1000, 101'000, 102'000}, {0.5, 0.5, 1.0, 0.5});
  timeline.gaps = {{1000, 101'000}};

  EXPECT_DOUBLE_EQ(*gpu_means(timeline).gpus[0].busy_fraction, 0.5)
      << "what is not known counts for nothing";
}

TEST(GpuMeans, OfOneReadingAreThatReading) {
  EXPECT_DOUBLE_EQ(*gpu_means(with_busy({5}, {0.7})).gpus[0].busy_fraction, 0.7);
}

TEST(GpuMeans, OfNothingAreNothing) {
  EXPECT_FALSE(gpu_means(with_busy({}, {})).gpus[0].busy_fraction);
}

TEST(GpuMeans, PreferTheInstantPowerSamples) {
  Timeline timeline = with_busy({0}, {1});
  timeline.gpus[0].power_mw = {{0, 100}, {100, 100}};
  timeline.gpus[0].power_samples_mw = {{0, 20, 40}, {300, 300, 300}};

  EXPECT_DOUBLE_EQ(*gpu_means(timeline).gpus[0].power_mw, 300);
}

TEST(GpuSignals, AGpuThatFallsSilentBeforeTheOthersIsGoneUnlessItsRecordingEnds) {
  Timeline timeline;
  for (const double seconds : {10, 60}) {
    timeline.gpus.emplace_back();
    timeline.gpus.back().info.index = static_cast<int>(timeline.gpus.size()) - 1;
    for (double t = 0; t <= seconds * 1000; t += 100) {
      timeline.gpus.back().busy.t_ms.push_back(t);
      timeline.gpus.back().busy.values.push_back(0.9);
    }
  }
  EXPECT_TRUE(gpu_signals(timeline)[0].vanished);
  timeline.gpus[0].info.host = "alpha";
  timeline.gpus[1].info.host = "beta";
  EXPECT_FALSE(gpu_signals(timeline)[0].vanished) << "alpha was recorded for ten seconds";
}

}  // namespace
}  // namespace lockstep
