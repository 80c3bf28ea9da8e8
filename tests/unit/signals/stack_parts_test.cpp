// Which part of a step a Python stack stands in, and at which line of the user's.
#include "signals/stack_parts.hpp"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

const CodeFrame kLoop = {"main", "/home/ada/train.py", 80};

StackSample stack(std::vector<CodeFrame> inner, std::string call = "") {
  inner.push_back(kLoop);
  return {0, std::move(inner), std::move(call)};
}

CodeFrame library(const std::string& file, const std::string& function = "f") {
  return {function, "/venv/lib/python3.12/site-packages/" + file, 10};
}

TEST(StackPart, IsTheLoaderWithWorkersAndWithout) {
  EXPECT_EQ(part_of(stack({library("torch/utils/data/dataloader.py", "_try_get_data")})),
            StepPart::data_wait);
  // the user's own data set, called by the loader in the main thread
  EXPECT_EQ(part_of(stack({{"decode", "/home/ada/data.py", 12},
                           library("torch/utils/data/_utils/fetch.py", "fetch"),
                           library("torch/utils/data/dataloader.py", "__next__")},
                          "time.sleep")),
            StepPart::data_wait);
  EXPECT_EQ(part_of(stack({{"get_batch", "/home/ada/train.py", 120}})), StepPart::data_wait);
}

TEST(StackPlace, HasTheCallOnlyWhereItIsTheUsersOwn) {
  EXPECT_EQ(place_of(stack({}, ".item")).what, ".item");
  const CodePlace within = place_of(stack({library("torch/nn/modules/module.py")}, "logger"));
  EXPECT_EQ(within.what, "main") << "a line of the library has a logger";
  EXPECT_EQ(within.line, 80);
}

TEST(StackPart, GoesByTheFunctionNotByItsClass) {
  EXPECT_EQ(part_of(stack({{"Training.evaluate", "/home/ada/train.py", 50}})),
            StepPart::evaluation);
  EXPECT_EQ(part_of(stack({{"Block.forward", "/home/ada/model.py", 12},
                           {"Training.step", "/home/ada/train.py", 30}})),
            StepPart::forward);
}

TEST(StackPart, IsLoggingSavingEvaluatingCollecting) {
  EXPECT_EQ(part_of(stack({{"log_metrics", "/home/ada/train.py", 31}}, "time.sleep")),
            StepPart::logging);
  EXPECT_EQ(part_of(stack({library("wandb/sdk/wandb_run.py", "log")})), StepPart::logging);
  EXPECT_EQ(part_of(stack({library("torch/serialization.py", "save")})), StepPart::checkpoint);
  EXPECT_EQ(part_of(stack({library("torch/nn/modules/linear.py", "forward"),
                           {"evaluate", "/home/ada/train.py", 50}})),
            StepPart::evaluation)
      << "a forward pass within it";
  EXPECT_EQ(part_of(stack({}, "gc.collect")), StepPart::gc);
}

TEST(StackPart, IsTheStepItself) {
  EXPECT_EQ(part_of(stack({library("torch/nn/modules/linear.py", "forward")})), StepPart::forward);
  EXPECT_EQ(part_of(stack({library("torch/optim/adamw.py", "step")})), StepPart::optimizer);
  EXPECT_EQ(part_of(stack({library("torch/autograd/__init__.py", "backward")})),
            StepPart::backward);
  EXPECT_EQ(part_of(stack({}, ".item")), StepPart::sync);
}

TEST(StackPart, IsOtherForALineOfTheUsersThatNothingExplains) {
  EXPECT_EQ(part_of(stack({{"simulate", "/home/ada/world.py", 7}}, "time.sleep")), StepPart::other);
  EXPECT_EQ(part_of(stack({})), StepPart::other);
  EXPECT_EQ(part_of({}), StepPart::other) << "no frame at all";
}

TEST(StackPart, IsNotDecidedByNamesOfTheWholeTrainingOrOfMathematics) {
  EXPECT_EQ(part_of(stack({library("torch/nn/modules/linear.py", "forward"),
                           {"train_and_evaluate", "/home/ada/train.py", 50}})),
            StepPart::forward);
  EXPECT_EQ(part_of(stack({{"compute_log_probs", "/home/ada/ppo.py", 7}})), StepPart::other);
  EXPECT_EQ(part_of(stack({{"step", "/home/ada/train.py", 9}, library("tqdm/std.py", "__iter__")})),
            StepPart::other)
      << "a progress bar around the loop";
}

TEST(StackPart, IsTheSaveOrTheDataSetThatACopyToTheHostBelongsTo) {
  EXPECT_EQ(part_of(stack({library("torch/serialization.py", "_save")}, ".cpu")),
            StepPart::checkpoint);
  EXPECT_EQ(part_of(stack({{"__getitem__", "/home/ada/data.py", 12}}, ".numpy")),
            StepPart::data_wait);
}

TEST(StackPart, NamesTheInnermostLineOfTheUsers) {
  const CodePlace place = place_of(
      stack({library("wandb/sdk/wandb_run.py", "log"), {"tell", "/home/ada/train.py", 31}}));
  EXPECT_EQ(place.file, "/home/ada/train.py");
  EXPECT_EQ(place.line, 31);
  EXPECT_TRUE(place_of({}).file.empty());
}

}  // namespace
}  // namespace lockstep
