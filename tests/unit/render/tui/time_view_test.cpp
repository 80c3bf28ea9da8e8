#include "render/tui/time_view.hpp"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

Monitored watched_for(double ms) {
  Monitored seen;
  seen.history = History({0});
  GpuSample sample;
  sample.busy = 1.0;
  for (double t = 0; t <= ms; t += 100) seen.history.add(t, {sample});
  return seen;
}

TEST(TimeView, FollowsThePresentByWholeColumns) {
  MonitorState state;
  const TimeView early = time_view(watched_for(10'000), state, 50);
  const TimeView later = time_view(watched_for(10'100), state, 50);
  const TimeView much_later = time_view(watched_for(10'200), state, 50);

  EXPECT_DOUBLE_EQ(early.right_ms, later.right_ms) << "within a column nothing moves";
  EXPECT_DOUBLE_EQ(much_later.right_ms - early.right_ms, state.setup.column_ms);
}

TEST(TimeView, FinerThanAReadingThePowerLaneWaitsForTheDriversSamples) {
  Monitored seen = watched_for(10'000);
  GpuSample late;
  late.busy = 1.0;
  // up to 9 s
  late.power_samples = PowerSamples{std::vector<std::uint32_t>(100, 500'000), 20, 7000.0};
  seen.history.add(10'100, {late});
  MonitorState state;
  state.setup.lanes = Quantity::power;
  state.setup.column_ms = 20;
  state.zoomed = true;

  EXPECT_NEAR(time_view(seen, state, 50).right_ms, 9000, 40);
  state.setup.lanes = Quantity::busy;
  EXPECT_NEAR(time_view(seen, state, 50).right_ms, 10'100, 40) << "the other lanes are of now";
}

TEST(TimeView, FindsTheColumnOfAMoment) {
  const TimeView view = time_view(watched_for(10'000), {}, 50);

  for (int column = 0; column < 50; ++column) {
    EXPECT_EQ(view.column_of(view.start_of(column)), column);
    EXPECT_EQ(view.column_of(view.start_of(column) + view.column_ms / 2), column);
  }
}

TEST(TimeView, StaysWhereItWasPut) {
  MonitorState state;
  state.right_ms = 5000;

  EXPECT_DOUBLE_EQ(time_view(watched_for(10'000), state, 50).right_ms,
                   time_view(watched_for(60'000), state, 50).right_ms);
}

TEST(TimeCode, ReadsAsClocksDo) {
  EXPECT_EQ(time_code(0), "0:00");
  EXPECT_EQ(time_code(83'400), "1:23");
  EXPECT_EQ(time_code(83'400, 200), "1:23.4");
  EXPECT_EQ(time_code(3'723'000), "1:02:03");
  EXPECT_EQ(time_code(-5), "0:00");
}

TEST(TimeCode, IsReadBackAsPeopleTypeIt) {
  EXPECT_DOUBLE_EQ(*parse_time_code("1:23"), 83'000);
  EXPECT_DOUBLE_EQ(*parse_time_code("1:02:03"), 3'723'000);
  EXPECT_DOUBLE_EQ(*parse_time_code("90"), 90'000);
  EXPECT_DOUBLE_EQ(*parse_time_code("1.5s"), 1500);
  for (const char* const none : {"", "x", "1:99", "1:2:3:4", "-1", "1:"})
    EXPECT_FALSE(parse_time_code(none)) << none;
}

}  // namespace
}  // namespace lockstep
