#include "sources/nvml/call_schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// Runs the schedule for a while on a clock of its own and counts the calls.
struct Calls {
  std::map<CallKind, int> of_kind;
  std::vector<double> busy_spacings_ms;
};
Calls run(CallSchedule& schedule, std::chrono::seconds length) {
  Calls result;
  std::chrono::nanoseconds now = 0s;
  std::chrono::nanoseconds last_busy = -1s;
  while (now < length) {
    for (const CallKind kind : schedule.take_due(now)) {
      ++result.of_kind[kind];
      if (kind != CallKind::busy) continue;
      if (last_busy >= 0s)
        result.busy_spacings_ms.push_back(
            std::chrono::duration<double, std::milli>(now - last_busy).count());
      last_busy = now;
    }
    now = std::max(now + 1us, schedule.next_wake());
  }
  return result;
}

// The costs that were measured on one H200 (design.md).
void charge_h200(CallSchedule& schedule) {
  for (int i = 0; i < 3; ++i) {
    for (const CallKind kind : {CallKind::busy, CallKind::clocks, CallKind::power,
                                CallKind::temperature, CallKind::limits})
      schedule.measured(kind, 400ns);
    schedule.measured(CallKind::memory, 4us);
    schedule.measured(CallKind::processes, 22us);
    schedule.measured(CallKind::byte_counters, 118us);
    schedule.measured(CallKind::gpm, 250us);
    schedule.measured(CallKind::power_samples, 1400us);
  }
  schedule.replan();
}

TEST(CallSchedule, KeepsItsRateExactlyInTheMean) {
  CallSchedule schedule({.interval = 100ms}, 8, 0s);

  const Calls result = run(schedule, 100s);

  EXPECT_NEAR(result.of_kind.at(CallKind::busy), 1000, 2);
  EXPECT_NEAR(result.of_kind.at(CallKind::power_samples), 50, 2);
  EXPECT_NEAR(result.of_kind.at(CallKind::processes), 50, 2);
}

TEST(CallSchedule, ShakesThePeriodSoThatStepsCannotFallInWithIt) {
  CallSchedule schedule({.interval = 100ms}, 8, 0s);

  const Calls result = run(schedule, 100s);

  double sum = 0;
  for (const double spacing : result.busy_spacings_ms) sum += (spacing - 100) * (spacing - 100);
  const double deviation = std::sqrt(sum / static_cast<double>(result.busy_spacings_ms.size()));
  EXPECT_GT(deviation, 2) << "5 % either way gives about 4 ms";
  EXPECT_LT(deviation, 8);
}

TEST(CallSchedule, EightH200sFitTheBudgetAtTenHertz) {
  CallSchedule schedule({.interval = 100ms}, 8, 0s);

  charge_h200(schedule);

  EXPECT_LE(schedule.load(), 0.01);
  EXPECT_EQ(schedule.period(CallKind::busy), 100ms);
  EXPECT_EQ(schedule.period(CallKind::power_samples), 2s)
      << "later, and the driver would overwrite samples";
}

TEST(CallSchedule, SlowsTheDearestCallsDownFirst) {
  CallSchedule schedule({.interval = 100ms}, 8, 0s);
  for (int i = 0; i < 3; ++i) {
    schedule.measured(CallKind::busy, 1us);
    schedule.measured(CallKind::gpm, 5ms);
  }

  schedule.replan();

  EXPECT_LE(schedule.load(), 0.01);
  EXPECT_EQ(schedule.period(CallKind::busy), 100ms);
  EXPECT_TRUE(schedule.slowed_down(CallKind::gpm));
}

TEST(CallSchedule, SpeedsUpAgainWhenCallsBecomeCheap) {
  CallSchedule schedule({.interval = 100ms}, 8, 0s);
  for (int i = 0; i < 3; ++i) schedule.measured(CallKind::gpm, 5ms);
  schedule.replan();
  ASSERT_TRUE(schedule.slowed_down(CallKind::gpm));

  for (int i = 0; i < 100; ++i) schedule.measured(CallKind::gpm, 10us);
  schedule.replan();

  EXPECT_FALSE(schedule.slowed_down(CallKind::gpm));
}

TEST(CallSchedule, AtTheStartTheLeastCostCounts) {
  CallSchedule schedule({.interval = 100ms}, 1, 0s);

  schedule.measured(CallKind::busy, 80ms);  // pays for the driver's set-up
  schedule.measured(CallKind::busy, 1us);
  schedule.measured(CallKind::busy, 2ms);  // waited for the driver's refresh

  EXPECT_EQ(schedule.cost(CallKind::busy), 1us);
}

TEST(CallSchedule, NeverReadsThePowerBufferTooLateHoweverDear) {
  CallSchedule schedule({.interval = 100ms}, 16, 0s);
  for (int i = 0; i < 3; ++i) schedule.measured(CallKind::power_samples, 50ms);

  schedule.limit_period(CallKind::power_samples, 1900ms);
  schedule.replan();

  EXPECT_LE(schedule.period(CallKind::power_samples), 1900ms);
}

TEST(CallSchedule, AfterAStallGoesOnWithoutCatchingUp) {
  CallSchedule schedule({.interval = 100ms}, 1, 0s);
  schedule.take_due(0s);

  schedule.take_due(60s);  // a call blocked for a minute

  EXPECT_GE(schedule.next_wake(), 60s + 90ms) << "what was missed is missed";
}

TEST(CallSchedule, ALongIntervalStillEmptiesThePowerBuffer) {
  CallSchedule schedule({.interval = 30s}, 1, 0s);

  const Calls result = run(schedule, 300s);

  EXPECT_NEAR(result.of_kind.at(CallKind::busy), 10, 1);
  EXPECT_GT(result.of_kind.at(CallKind::power_samples), 140)
      << "a buffer of 2.4 s, read every 30 s, would lose nearly all";
}

}  // namespace
}  // namespace lockstep
