#include "report/verification.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep {
namespace {

// Steps of some ranks at a steady pace.
Timeline steps_at(std::initializer_list<double> ms_a_step, std::size_t steps,
                  const std::string& batch = "") {
  Timeline timeline;
  int rank = 0;
  for (const double pace : ms_a_step) {
    for (std::size_t i = 0; i < steps; ++i) {
      StepAt entry;
      entry.t_ms = pace * static_cast<double>(i + 1);
      entry.step.rank = rank;
      entry.step.index = static_cast<std::int64_t>(i);
      entry.step.duration_ms = pace;
      timeline.steps.push_back(entry);
    }
    if (!batch.empty()) {
      FactAt fact;
      fact.fact.rank = rank;
      fact.fact.name = "loader";
      fact.fact.values = {{"batch", batch}, {"passes", "3"}};
      timeline.facts.push_back(fact);
    }
    ++rank;
  }
  return timeline;
}

TEST(RunSpeed, IsTheSamplesOfAllRanks) {
  const RunSpeed speed = speed_of(steps_at({100, 100}, 50, "32"), 6);

  EXPECT_NEAR(*speed.batches_per_s, 20, 0.01);
  EXPECT_NEAR(*speed.samples_per_s, 640, 0.1);
}

TEST(RunSpeed, CountsEveryPassOfAnAccumulation) {
  Timeline timeline = steps_at({100}, 20);
  for (StepAt& entry : timeline.steps) entry.step.passes = 4;

  EXPECT_NEAR(*speed_of(timeline, 2).batches_per_s, 40, 0.01);
  EXPECT_FALSE(speed_of(timeline, 2).samples_per_s);
}

TEST(RunSpeed, LeavesTheFirstStepsOut) {
  Timeline timeline = steps_at({100}, 20);
  for (StepAt& entry : timeline.steps) entry.t_ms += 60'000;  // compiled for a minute
  timeline.steps.front().t_ms = 0;

  EXPECT_NEAR(*speed_of(timeline, 62).batches_per_s, 10, 0.01);
}

TEST(RunSpeed, OfAFewStepsIsNotKnown) {
  EXPECT_FALSE(speed_of(steps_at({100}, 8), 1).batches_per_s);
  // all of them made ahead, and gone in a tenth of a second
  EXPECT_FALSE(speed_of(steps_at({1}, 100), 1).batches_per_s);
}

TEST(Verification, OfStepsThatAreFasterInRunsThatAreNotIsNoHelp) {
  Verification verification;
  verification.basis = SpeedBasis::samples;
  verification.variants = {{"as it is", {}, {100, 101}, {3.7, 3.7}},
                           {"patched", {}, {200, 202}, {3.8, 3.8}}};
  verification.speedups = {
      {1, 1, 1}, speedup_between(verification.variants[0].speeds, verification.variants[1].speeds)};
  EXPECT_TRUE(only_steps_gain(verification));

  verification.variants[1].seconds = {2.2, 2.3};
  EXPECT_FALSE(only_steps_gain(verification));
}

TEST(SpeedBasis, IsTheBestThatAllRunsHave) {
  const RunSpeed whole = speed_of(steps_at({100}, 50, "8"), 5);
  const RunSpeed without_batch = speed_of(steps_at({100}, 50), 5);
  RunSpeed nothing;
  nothing.seconds = 5;

  EXPECT_EQ(common_basis({{whole}, {whole}}), SpeedBasis::samples);
  EXPECT_EQ(common_basis({{whole}, {without_batch}}), SpeedBasis::batches);
  EXPECT_EQ(common_basis({{whole}, {nothing}}), SpeedBasis::whole_run);
  EXPECT_NEAR(speed_by(SpeedBasis::whole_run, nothing), 0.2, 1e-9);
}

TEST(Speedup, OfSteadyRunsHasANarrowInterval) {
  const std::vector<double> before = {100, 101, 99, 100, 100};
  const std::vector<double> after = {190, 192, 188, 190, 191};
  const Speedup speedup = speedup_between(before, after);

  EXPECT_NEAR(speedup.ratio, 1.9, 0.02);
  EXPECT_GT(speedup.low, 1.85);
  EXPECT_LT(speedup.high, 1.95);
  EXPECT_TRUE(speedup.helped());
}

TEST(Speedup, OfRoundsThatShareTheMachinesMoodsIsStillSeen) {
  // the same mood for both runs of a round
  const std::vector<double> before = {100, 50, 200, 80, 120};
  const std::vector<double> after = {150, 74, 305, 119, 181};

  EXPECT_TRUE(speedup_between(before, after).helped());
}

TEST(Speedup, OfNoiseIsNotCalledAHelpNorAHarm) {
  const Speedup speedup = speedup_between(std::vector<double>{100, 120, 90, 110, 95},
                                          std::vector<double>{105, 100, 108, 98, 112});

  EXPECT_FALSE(speedup.helped());
  EXPECT_FALSE(speedup.harmed());
}

TEST(Speedup, OfOneRoundHasNoInterval) {
  const Speedup speedup = speedup_between(std::vector<double>{100}, std::vector<double>{300});

  EXPECT_NEAR(speedup.ratio, 3, 1e-9);
  EXPECT_FALSE(speedup.helped());
  EXPECT_TRUE(std::isinf(speedup.high));
}

TEST(Speedup, OfSlowerRunsIsAHarm) {
  EXPECT_TRUE(
      speedup_between(std::vector<double>{100, 101, 99}, std::vector<double>{50, 51, 49}).harmed());
}

}  // namespace
}  // namespace lockstep
