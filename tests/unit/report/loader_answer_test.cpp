// The classic question: would more workers help?
#include "report/loader_answer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A step of 10 ms beside the wait for data, and a loader that gives a batch every `batch_ms` with
// its own workers.
JobSignals job_with(int workers, double batch_ms, double waits_ms) {
  JobSignals job;
  StepSignals steps;
  steps.count = 100;
  steps.duration_p50_ms = 10 + waits_ms;
  steps.p50_ms[index_of(StepPart::data_wait)] = waits_ms;
  steps.share[index_of(StepPart::data_wait)] = waits_ms / (10 + waits_ms);
  job.steps = steps;
  ProbeSettings settings;
  settings.loader_alone = LoaderTrial{workers, 100, 32, batch_ms, batch_ms, batch_ms};
  job.settings = settings;
  return job;
}

TEST(LoaderAnswer, IsNoneWhereTheLoaderWasNotTimed) {
  JobSignals job = job_with(2, 5, 0);
  job.settings->loader_alone.reset();

  EXPECT_FALSE(loader_answer(job));
}

TEST(LoaderAnswer, HasNoAdviceForALoaderThatKeepsUp) {
  const auto answer = loader_answer(job_with(2, 5, 0.1));

  ASSERT_TRUE(answer);
  EXPECT_FALSE(answer->loading_is_slow);
  EXPECT_FALSE(answer->enough_workers);
  EXPECT_FALSE(answer->enough_prefetch);
  EXPECT_THAT(answer->sentence, HasSubstr("More workers would change nothing"));
}

TEST(LoaderAnswer, ComputesWorkersFromWhatOneTakes) {
  const auto answer = loader_answer(job_with(1, 25, 15));

  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->loading_is_slow);
  EXPECT_EQ(answer->enough_workers, 3) << "25 ms a batch, a step of 10 ms, a tenth to spare";
  EXPECT_FALSE(answer->tried);
  EXPECT_EQ(answer->enough_prefetch, 2);
}

TEST(LoaderAnswer, TakesTheFewestWorkersThatKeptUpWhenTried) {
  JobSignals job = job_with(1, 25, 15);
  job.settings->loader_trials = {
      {4, 30, 32, 50, 7, 9}, {2, 30, 32, 50, 13, 15}, {8, 30, 32, 50, 5, 6}};

  const auto answer = loader_answer(job);

  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->enough_workers, 4);
  EXPECT_TRUE(answer->tried);
  EXPECT_THAT(answer->sentence, HasSubstr("4 workers kept up when tried"));
}

TEST(LoaderAnswer, SaysThatNoNumberOfWorkersHelps) {
  JobSignals job = job_with(1, 25, 15);
  job.settings->loader_trials = {{2, 30, 32, 50, 24, 30}, {4, 30, 32, 50, 23, 30}};

  const auto answer = loader_answer(job);

  ASSERT_TRUE(answer);
  EXPECT_FALSE(answer->enough_workers);
  EXPECT_THAT(answer->sentence, HasSubstr("None of the numbers of workers"));
}

TEST(LoaderAnswer, CoversALongBatchByFetchingFurtherAhead) {
  JobSignals job = job_with(1, 25, 15);
  job.settings->longest_batch_ms = 120;  // twelve steps, dealt out among three workers

  const auto answer = loader_answer(job);

  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->enough_prefetch, 5);
  EXPECT_THAT(answer->sentence, HasSubstr("prefetch_factor=5 covers the longest batch"));
}

TEST(LoaderAnswer, WarnsOfATransferOfMoreThanTenMilliseconds) {
  JobSignals job = job_with(2, 5, 0);
  job.settings->transfer = BatchTransfer{600e6, 24.0, 11.0};
  JobSignals short_one = job;
  short_one.settings->transfer = BatchTransfer{1e6, 0.11, 0.1};

  EXPECT_THAT(loader_answer(job)->warnings, ElementsAre(HasSubstr("more than 10 ms")));
  EXPECT_THAT(loader_answer(short_one)->warnings, IsEmpty());
}

}  // namespace
}  // namespace lockstep
