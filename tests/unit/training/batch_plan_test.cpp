#include "training/batch_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::HasSubstr;

TrainSettings batch_of_4_with_2048_tokens() {
  TrainSettings settings;
  settings.model = "gpt2";
  settings.batch_size = 4;
  settings.sequence_length = 2048;
  return settings;
}

TEST(BatchPlan, MultipliesBatchReplicasAndAccumulation) {
  TrainSettings settings;
  settings.batch_size = 8;
  settings.accumulation = 3;

  const auto plan = plan_batch(settings, *shape_of(settings), 2);

  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->samples_per_update, 48);
  EXPECT_EQ(plan->tokens_per_update, 48 * 128);
}

TEST(BatchPlan, SetsAccumulationFromTokensPerUpdate) {
  TrainSettings settings = batch_of_4_with_2048_tokens();
  settings.tokens_per_update = 524288;

  EXPECT_EQ(plan_batch(settings, *shape_of(settings), 1)->accumulation, 64);
  EXPECT_EQ(plan_batch(settings, *shape_of(settings), 4)->accumulation, 16);
}

TEST(BatchPlan, NamesTheTwoNearestValuesWhereItDoesNotDivide) {
  TrainSettings settings;
  settings.batch_size = 8;
  settings.global_batch = 100;

  const auto plan = plan_batch(settings, *shape_of(settings), 3);

  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().kind, ErrorKind::usage);
  EXPECT_THAT(plan.error().what, HasSubstr("24"));
  EXPECT_THAT(plan.error().next, HasSubstr("96 or 120"));
}

TEST(BatchPlan, OffersTheLeastWhereLessThanOnePassWasAskedFor) {
  TrainSettings settings;
  settings.batch_size = 8;
  settings.global_batch = 5;

  EXPECT_THAT(plan_batch(settings, *shape_of(settings), 2).error().next,
              HasSubstr("--global-batch 16"));
}

TEST(BatchPlan, RefusesTwoWaysToSayTheSame) {
  TrainSettings settings = batch_of_4_with_2048_tokens();
  settings.tokens_per_update = 524288;
  settings.global_batch = 256;

  EXPECT_FALSE(plan_batch(settings, *shape_of(settings), 1));
}

TEST(ModelShape, HasTheParametersOfGpt2) {
  TrainSettings settings;
  settings.model = "gpt2";
  settings.vocabulary = 50257;  // unpadded, as published

  EXPECT_EQ(parameter_count(*shape_of(settings)), 124'439'808);  // OpenAI's 124M
}

TEST(ModelShape, RefusesHeadsThatDoNotShareTheWidth) {
  TrainSettings settings;
  settings.width = 130;

  const auto shape = shape_of(settings);

  ASSERT_FALSE(shape);
  EXPECT_THAT(shape.error().next, HasSubstr("128 or 132"));
}

}  // namespace
}  // namespace lockstep
