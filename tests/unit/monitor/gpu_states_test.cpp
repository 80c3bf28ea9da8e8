#include "report/gpu_states.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/monitored_run.hpp"
#include "support/simulated_run.hpp"

namespace lockstep {
namespace {

using testing::Doing;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::judged;
using testing::process_on_gpus;
using testing::put_processes;
using testing::rank_on_gpu;
using testing::simulate;
using testing::working_else_spinning;
using testing::working_part;

const testing::Behaviour kBusy = [](double) { return Doing::working; };
const testing::Behaviour kNothing = [](double) { return Doing::nothing; };

std::vector<GpuState> states_of(const Timeline& timeline) {
  const Report report = judged(timeline);
  return gpu_states(timeline, &report);
}

Timeline two_ranks(const std::vector<testing::Behaviour>& gpus, double seconds = 6) {
  Timeline timeline = simulate(gpus, {.seconds = seconds});
  ProcessTick ranks;
  for (int i = 0; i < static_cast<int>(gpus.size()); ++i)
    ranks.push_back(rank_on_gpu(i, static_cast<int>(gpus.size()), i));
  put_processes(timeline, ranks);
  return timeline;
}

TEST(GpuState, IsInStepWhereRanksWorkTogether) {
  EXPECT_THAT(states_of(two_ranks({working_part(200, 0.9), working_part(200, 0.9)})),
              ElementsAre(GpuState::in_step, GpuState::in_step));
}

TEST(GpuState, TellsWhoseTurnItIsWhereTurnsAreLong) {
  Timeline timeline =
      simulate({working_part(4000, 0.5), working_part(4000, 0.5, 2000)}, {.seconds = 11.5});
  put_processes(timeline, {process_on_gpus(1, {0, 1})});

  // At 11.5 s the second half of a period has begun 1.5 s ago.
  EXPECT_THAT(states_of(timeline),
              ElementsAre(GpuState::idle_while_others_work, GpuState::its_turn));
}

TEST(GpuState, SaysTakesTurnsWhereTheyAreTooShortToBeSeen) {
  Timeline timeline =
      simulate({working_part(160, 0.5), working_part(160, 0.5, 80)}, {.seconds = 8});
  put_processes(timeline, {process_on_gpus(1, {0, 1})});

  EXPECT_THAT(states_of(timeline), Each(GpuState::takes_turns));
}

TEST(GpuState, SpinsWhereItReadsBusyAndDoesNotWork) {
  // Both work for four seconds, then the first waits for the second.
  const testing::Behaviour works_then_spins = [](double t) {
    return t < 4000 ? Doing::working : Doing::spinning;
  };
  const auto states = states_of(two_ranks({works_then_spins, kBusy}, 6));

  EXPECT_EQ(states[0], GpuState::spinning);
  EXPECT_NE(states[1], GpuState::spinning);
}

TEST(GpuState, AGpuThatNobodyHoldsIsFree) {
  Timeline timeline = simulate({kNothing, kNothing});
  put_processes(timeline, {});

  EXPECT_THAT(states_of(timeline), Each(GpuState::free));
}

TEST(GpuState, AGpuThatIsHeldAndDoesNothingIsIdle) {
  Timeline timeline = simulate({kNothing});
  put_processes(timeline, {process_on_gpus(1, {0})});

  EXPECT_THAT(states_of(timeline), ElementsAre(GpuState::idle));
}

TEST(GpuState, AFreeGpuBesideAJobIsNamedWhenTheReportNamesIt) {
  Timeline timeline = simulate({kBusy, kNothing});
  put_processes(timeline, {process_on_gpus(1, {0})});
  Report report = judged(timeline);
  Finding idle;
  idle.code = FindingCode::idle_gpus;
  idle.gpus = {1};
  report.findings = {idle};

  EXPECT_EQ(gpu_states(timeline, &report)[1], GpuState::idle_while_others_work);
}

TEST(GpuState, HeatComesBeforeEverythingButLossAndIdleness) {
  Timeline timeline = two_ranks({kBusy, kBusy});
  ClockLimits hot;
  hot.add(ClockLimit::hw_thermal_slowdown);
  timeline.gpus[1].limits.t_ms = {timeline.to_ms};
  timeline.gpus[1].limits.values = {hot};

  EXPECT_THAT(states_of(timeline), ElementsAre(GpuState::in_step, GpuState::throttled));
}

TEST(GpuState, ThePowerCapAloneIsNoThrottling) {
  Timeline timeline = two_ranks({kBusy, kBusy});
  ClockLimits capped;
  capped.add(ClockLimit::sw_power_cap);
  timeline.gpus[1].limits.t_ms = {timeline.to_ms};
  timeline.gpus[1].limits.values = {capped};

  EXPECT_EQ(states_of(timeline)[1], GpuState::in_step)
      << "a GPU at full load is at its limit: that is what limits are for";
}

TEST(GpuState, IsLostUntilItRecovers) {
  Timeline timeline = two_ranks({kBusy, kBusy});
  timeline.events = {{100, {"lost", 0, ""}}, {100, {"lost", 1, ""}}, {200, {"recovered", 1, ""}}};

  EXPECT_THAT(gpu_states(timeline, nullptr), ElementsAre(GpuState::lost, GpuState::working));
}

TEST(GpuState, WithoutReadingsSaysSo) {
  Timeline timeline = simulate({kBusy});
  timeline.to_ms += 10'000;

  EXPECT_THAT(gpu_states(timeline, nullptr), ElementsAre(GpuState::no_reading));
}

TEST(GpuState, ALogWithAReadingEveryHalfMinuteHasReadings) {
  Timeline timeline = simulate(
      {kBusy}, {.seconds = 300, .tick_ms = 30'000, .window_ms = 1000, .power_samples = false});
  timeline.to_ms += 20'000;

  EXPECT_THAT(gpu_states(timeline, nullptr), ElementsAre(GpuState::working));
}

TEST(GpuState, WithoutAReportSaysOnlyWhatEachShows) {
  EXPECT_THAT(gpu_states(simulate({kBusy, kNothing}), nullptr),
              ElementsAre(GpuState::working, GpuState::idle));
}

TEST(GpuState, TheLateRankIsNamedAndTheOthersAreNot) {
  Timeline timeline = two_ranks({working_part(200, 0.9), working_part(200, 0.9)});
  Report report = judged(timeline);
  Finding late;
  late.code = FindingCode::straggler_rank;
  late.gpus = {1};
  report.findings = {late};

  EXPECT_THAT(gpu_states(timeline, &report), ElementsAre(GpuState::in_step, GpuState::late));
}

}  // namespace
}  // namespace lockstep
