// Where a job's GPU time goes, as far as readings tell: working, waiting in a kernel, idle.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "signals/derive_signals.hpp"
#include "support/simulated_run.hpp"

namespace lockstep {
namespace {

using namespace testing;

Timeline with_ranks(Timeline timeline, int ranks) {
  ProcessTick processes;
  for (int rank = 0; rank < ranks; ++rank) processes.push_back(rank_on_gpu(rank, ranks, rank));
  put_processes(timeline, processes);
  return timeline;
}

// Each step lasts as long as the longest of its ranks; who that is changes.
Behaviour uneven(int rank, int ranks) {
  constexpr int kSteps = 60;
  std::mt19937 random(7);
  std::uniform_real_distribution<double> length(120, 400);
  std::vector<double> begins = {0};
  std::vector<double> own;
  for (int step = 0; step < kSteps; ++step) {
    double longest = 0;
    for (int other = 0; other < ranks; ++other) {
      const double lasts = length(random);
      if (other == rank) own.push_back(lasts);
      longest = std::max(longest, lasts);
    }
    begins.push_back(begins.back() + longest + 30);
  }
  return [begins, own](double t_ms) {
    std::size_t step = 0;
    while (step + 1 < own.size() && begins[step + 1] <= t_ms) ++step;
    return t_ms - begins[step] < own[step] ? Doing::working : Doing::spinning;
  };
}

TEST(TimeAccount, GivesEachGpuItsWholeTime) {
  const auto timeline =
      with_ranks(simulate({working_part(500, 0.6), working_part(500, 0.6)}, {.seconds = 10}), 2);

  const JobSignals job = derive_signals(timeline).jobs.at(0);

  for (const GpuInJob& member : job.members) {
    ASSERT_TRUE(member.time);
    EXPECT_NEAR(member.time->working + member.time->waiting + member.time->idle, 1, 1e-9);
    EXPECT_NEAR(member.time->working, 0.6, 0.04);
    EXPECT_NEAR(member.time->idle, 0.4, 0.04);
  }
  ASSERT_TRUE(job.time);
  EXPECT_NEAR(job.time->idle_together, 0.4, 0.04);
}

TEST(TimeAccount, TellsTurnsFromRestThoughWindowsBlurThem) {
  const auto timeline =
      simulate({working_part(300, 0.5), working_part(300, 0.5, 150)}, {.seconds = 10});

  const JobSignals job = derive_signals(timeline).jobs.at(0);

  ASSERT_TRUE(job.time);
  EXPECT_LT(job.time->idle_together, 0.05);
}

TEST(TimeAccount, TellsWaitingForARankFromWaitingWithAll) {
  const auto late = with_ranks(
      simulate({working_else_spinning(500, 0.5), working_part(500, 0.96)}, {.seconds = 10}), 2);
  const auto together = with_ranks(
      simulate({working_else_spinning(500, 0.6), working_else_spinning(500, 0.6)}, {.seconds = 10}),
      2);

  const JobSignals waits = derive_signals(late).jobs.at(0);
  const JobSignals exchanges = derive_signals(together).jobs.at(0);

  EXPECT_NEAR(waits.members.at(0).time->waiting, 0.5, 0.05);
  EXPECT_LT(waits.members.at(1).time->waiting, 0.05);
  EXPECT_LT(waits.time->waiting_together, 0.05);
  EXPECT_GT(waits.members.at(1).time->waited_for, 0.9) << "GPU 1 is what GPU 0 waits for";
  EXPECT_NEAR(exchanges.time->waiting_together, 0.4, 0.05);
}

TEST(TimeAccount, SeesThatUnevenRanksBeginTogetherAndStagesDoNot) {
  const auto lengths =
      with_ranks(simulate({uneven(0, 3), uneven(1, 3), uneven(2, 3)}, {.seconds = 15}), 3);
  const auto stages =
      with_ranks(simulate({working_else_spinning(900, 0.6), working_else_spinning(900, 0.6, 150),
                           working_else_spinning(900, 0.6, 300)},
                          {.seconds = 15}),
                 3);

  const JobSignals uneven_job = derive_signals(lengths).jobs.at(0);
  const JobSignals pipeline = derive_signals(stages).jobs.at(0);

  EXPECT_GT(uneven_job.fine->rises_together.value_or(0), 0.9);
  EXPECT_LT(pipeline.fine->rises_together.value_or(1), 0.2);
  for (const GpuInJob& member : uneven_job.members)
    EXPECT_LT(member.time->waited_for, 0.6) << "no rank is late most of the time";
}

TEST(TimeAccount, LeavesOutTheRampOfAStart) {
  const auto rises = [](double t_ms) {
    return t_ms < 2000 ? (std::fmod(t_ms, 200) < 40 ? Doing::working : Doing::nothing)
                       : Doing::working;
  };

  const JobSignals job = derive_signals(simulate({rises, rises}, {.seconds = 12})).jobs.at(0);

  EXPECT_GE(job.from_ms, 1900) << "jobs that start together rise together: that proves nothing";
}

}  // namespace
}  // namespace lockstep
