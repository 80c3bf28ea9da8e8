#include "signals/stack_profile.hpp"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

StackSample stack(const std::string& function, int line, int seen, double ago_ms = 0) {
  StackSample sample;
  sample.frames = {{function, "/home/ada/train.py", line}, {"main", "/home/ada/train.py", 90}};
  sample.seen = seen;
  sample.ago_ms = ago_ms;
  return sample;
}

ProcessSample process(int pid, std::vector<StackSample> stacks) {
  ProcessSample sample;
  sample.pid = pid;
  sample.stacks = std::move(stacks);
  return sample;
}

JobSignals job_of(std::vector<int> pids) {
  JobSignals job;
  job.pids = std::move(pids);
  job.from_ms = 1000;
  job.to_ms = 9000;
  return job;
}

Timeline at(double t_ms, std::vector<ProcessSample> processes) {
  Timeline timeline;
  timeline.process_lists.push_back({t_ms, std::move(processes)});
  return timeline;
}

TEST(StackProfile, CountsEachRankAlikeHoweverOftenItWasLookedAt) {
  const auto profile =
      stack_profile(at(5000, {process(1, {stack("get_batch", 10, 30), stack("score", 20, 10)}),
                              process(2, {stack("get_batch", 10, 5)})}),
                    job_of({1, 2}));

  ASSERT_TRUE(profile);
  EXPECT_EQ(profile->samples, 45);
  EXPECT_EQ(profile->processes, 2);
  ASSERT_EQ(profile->stacks.size(), 2U);
  EXPECT_NEAR(profile->stacks[0].share, 0.875, 1e-9);
  EXPECT_EQ(profile->stacks[0].part, StepPart::data_wait);
  EXPECT_EQ(profile->stacks[0].frames.front().function, "main") << "the outermost first";
  EXPECT_EQ(profile->stacks[0].place.line, 10);
}

TEST(StackProfile, LeavesOutOtherJobsAndTheTimeBeforeTheWork) {
  const auto profile = stack_profile(
      at(5000, {process(1, {stack("score", 20, 25), stack("load_model", 3, 50, 4500)}),
                process(7, {stack("get_batch", 10, 30)})}),
      job_of({1}));

  ASSERT_TRUE(profile);
  EXPECT_EQ(profile->samples, 25);
  ASSERT_EQ(profile->stacks.size(), 1U);
  EXPECT_EQ(profile->stacks[0].place.line, 20);
}

TEST(StackProfile, OfAFewStacksIsNone) {
  EXPECT_FALSE(stack_profile(at(5000, {process(1, {stack("score", 20, 19)})}), job_of({1})));
}

}  // namespace
}  // namespace lockstep
