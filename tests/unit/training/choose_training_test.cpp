#include "training/choose_training.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "training/model_shapes.hpp"
#include "training/plan_of_training.hpp"
#include "training/report_settings.hpp"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
constexpr std::uint64_t kGigabyte = 1'000'000'000;

TrainMachine machine_with(int gpus, std::uint64_t gigabytes, const char* name = "NVIDIA H200") {
  return {gpus, gigabytes * kGigabyte, name, 32};
}

TEST(ChooseTraining, TakesDdpOverAllGpus) {
  TrainSettings settings;
  settings.model = "gpt2";

  const auto choice = choose_training(settings, {"model"}, machine_with(4, 140));

  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->settings.parallel, "ddp");
  EXPECT_EQ(choice->ranks, 4);
  EXPECT_EQ(choice->settings.precision, "bf16");
  EXPECT_EQ(choice->settings.batch_size, 64);
  for (const Choice& item : choice->choices) EXPECT_FALSE(item.why.empty()) << item.setting;
}

TEST(ChooseTraining, TakesOneGpuAlone) {
  const auto choice = choose_training({}, {}, machine_with(1, 140));

  EXPECT_EQ(choice->settings.parallel, "single");
  EXPECT_EQ(choice->ranks, 1);
}

TEST(ChooseTraining, TakesVirtualGpusWhereThereAreNone) {
  const auto choice = choose_training({}, {}, {0, 24 * kGigabyte, "", 2});

  EXPECT_EQ(choice->settings.device, "cpu");
  EXPECT_EQ(choice->settings.parallel, "ddp");
  EXPECT_EQ(choice->ranks, 2);
  EXPECT_EQ(choice->settings.precision, "fp32");
}

TEST(ChooseTraining, LeavesWhatTheUserGave) {
  TrainSettings settings;
  settings.parallel = "naive";
  settings.batch_size = 3;
  settings.precision = "fp32";

  const auto choice =
      choose_training(settings, {"parallel", "batch-size", "precision"}, machine_with(2, 24));

  EXPECT_EQ(choice->settings.parallel, "naive");
  EXPECT_EQ(choice->ranks, 1);
  EXPECT_EQ(choice->settings.batch_size, 3);
  EXPECT_EQ(choice->settings.precision, "fp32");
}

TEST(ChooseTraining, TakesASmallerBatchOnASmallerGpu) {
  TrainSettings settings;
  settings.model = "gpt2";

  const auto choice = choose_training(settings, {"model"}, machine_with(2, 12));

  ASSERT_TRUE(choice);
  EXPECT_LT(choice->settings.batch_size, 64);
  const PlanRequest request =
      training_request(choice->settings, {}, *shape_of(choice->settings), machine_with(2, 12), 2);
  EXPECT_TRUE(evaluate(request, {.strategy = SplitStrategy::ddp,
                                 .gpus = 2,
                                 .micro_batch = choice->settings.batch_size})
                  .fits);
  EXPECT_FALSE(evaluate(request, {.strategy = SplitStrategy::ddp,
                                  .gpus = 2,
                                  .micro_batch = 2 * choice->settings.batch_size})
                   .fits);
}

TEST(ChooseTraining, ComputesBlocksTwiceBeforeItGivesUp) {
  TrainSettings settings;
  settings.model = "gpt2-xl";
  settings.sequence_length = 4096;

  const auto choice = choose_training(settings, {"model", "sequence-length"}, machine_with(2, 44));

  ASSERT_TRUE(choice);
  EXPECT_TRUE(choice->settings.activation_checkpointing);
}

TEST(ChooseTraining, TakesABatchThatDividesTheUpdateAndTellsTheAccumulation) {
  TrainSettings settings;
  settings.model = "gpt2";
  settings.global_batch = 96;

  const auto choice = choose_training(settings, {"model", "global-batch"}, machine_with(2, 24));

  ASSERT_TRUE(choice) << choice.error().what;
  EXPECT_EQ(96 % (choice->settings.batch_size * 2), 0);
  EXPECT_TRUE(std::ranges::any_of(
      choice->choices, [](const Choice& item) { return item.setting == "accumulation"; }));
}

TEST(ChooseTraining, SaysWhatDoesNotFit) {
  TrainSettings settings;
  settings.model = "gpt2-xl";

  const auto choice = choose_training(settings, {"model"}, machine_with(2, 12));

  ASSERT_FALSE(choice);
  EXPECT_THAT(choice.error().what, HasSubstr("gpt2-xl does not fit"));
  EXPECT_THAT(choice.error().next, HasSubstr("smaller --model"));
}

TEST(ChooseTraining, SplitsWhatFitsOnNoSingleGpuAndNamesTheBetterWay) {
  TrainSettings settings;
  settings.model = "gpt2-xl";

  const auto choice = choose_training(settings, {"model"}, machine_with(2, 24, "NVIDIA A10"));

  ASSERT_TRUE(choice) << choice.error().what;
  EXPECT_EQ(choice->settings.parallel, "naive");
  const auto parallel = std::ranges::find_if(
      choice->choices, [](const Choice& item) { return item.setting == "parallel"; });
  ASSERT_NE(parallel, choice->choices.end());
  EXPECT_THAT(parallel->why, HasSubstr("which this trainer does not have"));
}

TEST(ChooseTraining, OffersTheBatchAndAccumulationThatFit) {
  TrainSettings settings;
  settings.model = "gpt2";
  settings.batch_size = 512;

  const auto choice = choose_training(settings, {"model", "batch-size"}, machine_with(1, 80));

  ASSERT_FALSE(choice);
  EXPECT_THAT(choice.error().next, HasSubstr("--batch-size 64 and --accumulation 8"));
}

TEST(ChooseTraining, TakesFp16WhereTensorCoresKnowNoBf16) {
  EXPECT_EQ(
      choose_training({}, {}, machine_with(2, 16, "Tesla V100-SXM2-16GB"))->settings.precision,
      "fp16");
}

TEST(ReportSettings, AnswerFindingsWithTheirReason) {
  TrainSettings now;
  now.log_every = 1;
  const std::string report =
      R"({"lockstep_report":1,"findings":[{"code":"P101","name":"taking-turns"},{"code":"S302","name":"logging-too-often"},
    {"code":"X701","name":"world-size-not-set"},{"code":"H602","name":"thermal-throttle"},{"code":7},"odd"]})";

  const auto choices = settings_in_report(report, now);

  ASSERT_TRUE(choices);
  ASSERT_EQ(choices->size(), 2U) << "P101 and X701 say the same; no setting cools a GPU";
  EXPECT_EQ(choices->at(0).setting, "parallel");
  EXPECT_EQ(choices->at(0).value, "ddp");
  EXPECT_THAT(choices->at(0).why, HasSubstr("P101 taking-turns"));
  EXPECT_EQ(choices->at(1).value, "10");
}

TEST(ReportSettings, RefuseWhatIsNoReport) {
  EXPECT_FALSE(settings_in_report("{}", {}));
  EXPECT_FALSE(settings_in_report("no json", {}));
  EXPECT_TRUE(settings_in_report(R"({"lockstep_report":1})", {})->empty());
}

}  // namespace
}  // namespace lockstep
