#include "timeline/history.hpp"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

GpuTick tick_of(double busy, int gpu = 0) {
  GpuSample sample;
  sample.index = gpu;
  sample.busy = busy;
  return {sample};
}

History filled(double seconds, double (*busy)(double t_ms), double every_ms = 100) {
  History history({0});
  for (int i = 0; i * every_ms < seconds * 1000; ++i)
    history.add(i * every_ms, tick_of(busy(i * every_ms)));
  return history;
}

double half(double) { return 0.5; }
double steps_of_a_second(double t_ms) { return static_cast<int>(t_ms / 1000) % 2 == 0 ? 1.0 : 0.0; }

TEST(History, AnswersForTheStretchThatIsAskedAbout) {
  const History history = filled(10, steps_of_a_second);

  EXPECT_DOUBLE_EQ(*history.cell(0, Quantity::busy, 2000, 2200).value, 1);
  EXPECT_DOUBLE_EQ(*history.cell(0, Quantity::busy, 3000, 3200).value, 0);
  EXPECT_NEAR(*history.cell(0, Quantity::busy, 0, 10'000).value, 0.5, 0.01);
}

TEST(History, KeepsHoursInFixedMemory) {
  History history({0});
  for (int i = 0; i < 10 * 3600 * 3; ++i) history.add(i * 100.0, tick_of(0.5));
  const std::size_t after_three_hours = history.bytes();
  for (int i = 10 * 3600 * 3; i < 10 * 3600 * 20; ++i) history.add(i * 100.0, tick_of(0.5));

  EXPECT_LE(history.bytes(), 1'000'000U) << "of one GPU";
  EXPECT_LE(history.bytes(), 2 * after_three_hours);
  EXPECT_NEAR(*history.cell(0, Quantity::busy, 10 * 3600e3, 10 * 3600e3 + 10'000).value, 0.5, 1e-6)
      << "ten hours ago, by ten seconds";
}

TEST(History, ForgetsFineDetailsFirst) {
  History history({0});
  for (int i = 0; i < 10 * 1800; ++i) history.add(i * 100.0, tick_of(steps_of_a_second(i * 100.0)));

  const auto recent = history.cell(0, Quantity::busy, 1'790'000, 1'790'100).value;
  const auto old = history.cell(0, Quantity::busy, 2000, 2100).value;

  EXPECT_DOUBLE_EQ(*recent, 1) << "the last five minutes by 100 ms";
  EXPECT_DOUBLE_EQ(*old, 1) << "half an hour ago by the second";
}

TEST(History, DoesNotFillAGap) {
  History history = filled(5, half);
  for (int i = 0; i < 20; ++i) history.add(15'000 + i * 100, tick_of(0.5));

  EXPECT_FALSE(history.cell(0, Quantity::busy, 9000, 9200).value);
  EXPECT_TRUE(history.cell(0, Quantity::busy, 4000, 4200).value);
  EXPECT_TRUE(history.cell(0, Quantity::busy, 16'000, 16'200).value);
}

TEST(History, TakesTheReadingBeforeWhereTicksAreRarerThanColumns) {
  const History history = filled(20, half, 1000);

  for (double t = 2000; t < 18'000; t += 100)
    EXPECT_TRUE(history.cell(0, Quantity::busy, t, t + 100).value) << t;
}

TEST(History, HoldsWhatIsReadRarelyUntilItGrowsOld) {
  History history({0});
  for (int i = 0; i < 100; ++i) {
    GpuTick tick = tick_of(0.5);
    if (i == 0) tick[0].temperature_c = 60.0;
    history.add(i * 100.0, tick);
  }

  EXPECT_DOUBLE_EQ(*history.cell(0, Quantity::temperature, 1000, 1100).value, 60);
  EXPECT_FALSE(history.cell(0, Quantity::temperature, 8000, 8100).value);
}

TEST(History, ShowsAFailedReadingAsNone) {
  History history = filled(2, half);
  for (int i = 20; i < 40; ++i) {
    GpuTick tick = tick_of(0.5);
    tick[0].busy = Reading<double>::error();
    history.add(i * 100.0, tick);
  }

  EXPECT_FALSE(history.cell(0, Quantity::busy, 3000, 3100).value) << "never 0";
}

TEST(History, ShowsTurnsOfFiftyMillisecondsInThePowerSamples) {
  History history({0});
  for (int second = 0; second < 4; ++second) {
    GpuTick tick = tick_of(0.5);
    PowerSamples samples{{}, 20, second * 1000.0 + 20};
    for (int i = 0; i < 50; ++i) samples.milliwatts.push_back(i / 5 % 2 == 0 ? 600'000 : 100'000);
    tick[0].power_samples = samples;
    history.add((second + 1) * 1000.0 + 20, tick);
  }

  EXPECT_NEAR(*history.cell(0, Quantity::power, 1040, 1060).value, 600'000, 1);
  EXPECT_NEAR(*history.cell(0, Quantity::power, 1140, 1160).value, 100'000, 1);
}

TEST(History, MakesRatesOfByteCounters) {
  History history({0});
  for (int i = 0; i < 30; ++i) {
    GpuTick tick = tick_of(1);
    tick[0].pcie_rx_bytes = static_cast<std::uint64_t>(i) * 1'000'000;
    tick[0].pcie_tx_bytes = std::uint64_t{0};
    history.add(i * 100.0, tick);
  }

  EXPECT_NEAR(*history.cell(0, Quantity::pcie, 1000, 1100).value, 10e6, 1) << "bytes a second";
}

TEST(History, RemembersWhatAGpuWasDoingAndWhatWasSaidOfAll) {
  History history = filled(1, half);
  history.set_state(900, 0, GpuState::in_step);
  history.set_verdict(900, {Pattern::in_step, 0.9, "in step"});
  for (int i = 10; i < 20; ++i) history.add(i * 100.0, tick_of(0));
  history.set_state(1900, 0, GpuState::idle);
  history.set_verdict(1900, {Pattern::idle, 0.9, "idle"});

  EXPECT_EQ(history.cell(0, Quantity::busy, 1000, 1100).state, GpuState::in_step);
  EXPECT_EQ(history.cell(0, Quantity::busy, 1900, 2000).state, GpuState::idle);
  EXPECT_EQ(history.verdict_at(1000)->pattern, Pattern::in_step);
  EXPECT_EQ(history.verdict_at(5000)->pattern, Pattern::idle);
  EXPECT_FALSE(history.verdict_at(100)) << "nothing was said yet";
}

TEST(History, TakesUpAGpuThatAppearsLater) {
  History history = filled(1, half);
  history.add(1000, tick_of(0.7, 5));

  EXPECT_EQ(history.gpus(), (std::vector<int>{0, 5}));
  EXPECT_NEAR(*history.cell(5, Quantity::busy, 1000, 1100).value, 0.7, 1e-6);
}

TEST(History, GoesOnAfterAPauseThatIsLongerThanItsMemory) {
  History history = filled(1, half);
  history.add(1e9, tick_of(0.9));

  EXPECT_NEAR(*history.cell(0, Quantity::busy, 1e9, 1e9 + 100).value, 0.9, 1e-6);
  EXPECT_FALSE(history.cell(0, Quantity::busy, 5e8, 5e8 + 100).value);
}

}  // namespace
}  // namespace lockstep
