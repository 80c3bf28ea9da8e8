#include "signals/turns.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "signals/derive_signals.hpp"
#include "support/simulated_run.hpp"

namespace lockstep {
namespace {

using namespace testing;

TurnSignals power_turns(const Timeline& timeline, std::vector<int> gpus) {
  return *turn_signals(*power_sample_lanes(timeline, gpus, timeline.from_ms, timeline.to_ms),
                       LaneKind::power_samples, 20);
}

TEST(Turns, OfTwoGpusThatAlternateAreExclusive) {
  const Timeline timeline = simulate({working_part(1000, 0.5), working_part(1000, 0.5, 500)});

  const TurnSignals turns = power_turns(timeline, {0, 1});

  EXPECT_GT(turns.exclusive_busy, 0.95);
  EXPECT_LT(turns.together, -0.9);
  EXPECT_GT(turns.opposed, 0.9);
  EXPECT_NEAR(*turns.period_ms, 1000, 40);
  EXPECT_GE(turns.hand_backs, 8);
  EXPECT_EQ(turns.blocks_together, 0);
  EXPECT_GE(turns.blocks_exclusive, 4);
}

TEST(Turns, OfFiftyMillisecondsShowInPowerAndNotInUtilization) {
  const Timeline timeline = simulate({working_part(100, 0.5), working_part(100, 0.5, 50)});

  const TurnSignals fine = power_turns(timeline, {0, 1});
  const Lanes busy = busy_lanes(timeline, {0, 1}, timeline.from_ms, timeline.to_ms);
  const TurnSignals coarse = *turn_signals(busy, LaneKind::busy, 200);

  EXPECT_GT(fine.exclusive_busy, 0.9);
  EXPECT_LT(coarse.exclusive_busy, 0.1) << "a window of 200 ms averages them into 50/50";
}

TEST(Turns, OfSixteenGpusAreToldFromChance) {
  std::vector<Behaviour> gpus;
  for (int i = 0; i < 16; ++i) gpus.push_back(working_part(3200, 1.0 / 16, 200.0 * i));
  SimulationOptions options;
  options.seconds = 20;

  const TurnSignals turns =
      power_turns(simulate(gpus, options), {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});

  EXPECT_GT(turns.exclusive_busy, 0.9);
  EXPECT_GT(turns.exclusive_busy, turns.exclusive_by_chance + 0.1);
  EXPECT_GT(turns.opposed, 0.8);
}

TEST(Turns, AreNotSeenInRanksThatWorkAndWaitTogether) {
  const Timeline timeline = simulate({working_part(400, 0.5), working_part(400, 0.5)});

  const TurnSignals turns = power_turns(timeline, {0, 1});

  EXPECT_LT(turns.exclusive_busy, 0.05);
  EXPECT_GT(turns.together, 0.95);
  EXPECT_EQ(turns.blocks_exclusive, 0);
  EXPECT_NEAR(*turns.period_ms, 400, 40);
}

TEST(Turns, LoadingOneAfterTheOtherHasHandOversAndNoHandBacks) {
  std::vector<Behaviour> gpus;
  for (int i = 0; i < 4; ++i)
    gpus.push_back([i](double t) {
      return t >= 1000.0 * i && t < 1000.0 * (i + 1) ? Doing::working : Doing::nothing;
    });

  const TurnSignals turns = power_turns(simulate(gpus), {0, 1, 2, 3});

  EXPECT_EQ(turns.hand_overs, 3);
  EXPECT_EQ(turns.hand_backs, 0);
}

TEST(Turns, APipelineFillsAndDrainsAloneMoreOftenThanByChance) {
  // Two stages: the second starts a slot later and ends a slot earlier than the first, which has
  // its hole in the middle.
  const Behaviour first = [](double t) {
    const double p = std::fmod(t, 1000);
    return p < 450 || p > 550 ? Doing::working : Doing::nothing;
  };
  const Behaviour second = [](double t) {
    const double p = std::fmod(t, 1000);
    return p > 50 && p < 950 ? Doing::working : Doing::nothing;
  };

  const TurnSignals turns = power_turns(simulate({first, second}), {0, 1});

  EXPECT_GT(turns.exclusive_busy, turns.exclusive_by_chance);
  EXPECT_LT(turns.exclusive_busy, 0.4);
  EXPECT_LT(turns.together, 0.05) << "ranks in step would share their holes";
  EXPECT_GT(turns.hand_backs, 4);
}

TEST(Turns, AreNothingOfOneGpuOrOfTooFewReadings) {
  const Timeline timeline = simulate({working_part(400, 0.5)});
  Lanes three;
  three.step_ms = 100;
  three.rows = {{1, 0, 1}, {0, 1, 0}};

  EXPECT_FALSE(
      turn_signals(*power_sample_lanes(timeline, {0}, 0, 6000), LaneKind::power_samples, 20));
  EXPECT_FALSE(turn_signals(three, LaneKind::busy, 100));
}

TEST(Lanes, LeaveGapsUnknown) {
  Timeline timeline = simulate({working_part(400, 0.5), working_part(400, 0.5)});
  for (GpuTrack& gpu : timeline.gpus)
    for (double& t : gpu.busy.t_ms)
      if (t > 3000) t += 5000;
  timeline.to_ms += 5000;

  const Lanes lanes = busy_lanes(timeline, {0, 1}, timeline.from_ms, timeline.to_ms);

  EXPECT_TRUE(std::isnan(lanes.rows[0][static_cast<std::size_t>(5500 / lanes.step_ms)]))
      << "in the middle of five silent seconds";
  EXPECT_FALSE(std::isnan(lanes.rows[0][5]));
}

TEST(PowerRange, IsNotTheNoiseOfAJobThatAlwaysWorks) {
  const Timeline timeline = simulate({[](double) { return Doing::working; }});

  const auto range = power_range(timeline.gpus[0], timeline, lowest_powers(timeline));

  ASSERT_TRUE(range);
  EXPECT_LE(range->idle_mw, 0.2 * kSimulatedLimitMw);
  EXPECT_GE(range->working_mw, kSimulatedWorkingMw * 0.99);
}

}  // namespace
}  // namespace lockstep
