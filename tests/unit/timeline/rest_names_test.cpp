#include "timeline/rest_names.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace lockstep {
namespace {

std::shared_ptr<const CodePlace> place(int line, const char* stack) {
  return std::make_shared<const CodePlace>(CodePlace{"train.py", line, stack, 0});
}

// Steps of 10 ms with 4 ms that nothing explains; a look into every third.
std::vector<StepAt> steps_with(const std::shared_ptr<const CodePlace>& looked_at,
                               std::vector<HostCall> calls = {}) {
  static const auto print = place(14, "print");
  std::vector<StepAt> steps;
  for (int i = 0; i < 30; ++i) {
    auto detail = std::make_shared<StepDetail>();
    detail->rests.push_back({6, 4, print, nullptr, calls});
    if (i % 3 == 0) detail->looks.push_back({8, 10, looked_at});
    StepMark step;
    step.index = i;
    step.duration_ms = 10;
    step.spans_ms[index_of(StepPart::forward)] = 6;
    step.spans_ms[index_of(StepPart::other)] = 4;
    step.detail = std::move(detail);
    steps.push_back({10.0 * i, std::move(step)});
  }
  return steps;
}

TEST(RestNames, GiveEveryStepsStretchWhatTheLooksIntoSomeSay) {
  auto steps = steps_with(place(20, "wandb:log<report"));

  name_rests(steps);

  for (const StepAt& entry : steps) {
    EXPECT_NEAR(*entry.step.spans_ms[index_of(StepPart::logging)], 4, 1e-9);
    EXPECT_NEAR(*entry.step.spans_ms[index_of(StepPart::other)], 0, 1e-9);
    ASSERT_EQ(entry.step.detail->pieces.size(), 1U);
    EXPECT_EQ(entry.step.detail->pieces[0].place->line, 20);
  }
}

TEST(RestNames, KeepAnUnknownLineInOtherAndNameIt) {
  auto steps = steps_with(place(31, ""));

  name_rests(steps);

  EXPECT_NEAR(*steps[5].step.spans_ms[index_of(StepPart::other)], 4, 1e-9);
  EXPECT_EQ(steps[5].step.detail->pieces.at(0).place->line, 31);
}

TEST(RestNames, AreTakenFromTheCLibraryWhereFunctionsDoNotTell) {
  auto steps = steps_with(place(31, "helper"), {{StepPart::checkpoint, place(0, "fsync"), 3}});

  name_rests(steps);

  EXPECT_NEAR(*steps[5].step.spans_ms[index_of(StepPart::checkpoint)], 4, 1e-9);
}

TEST(RestNames, GiveAWaitThatOnlyTheHostProbeSawTheLineItWasSeenAt) {
  const auto forward = place(12, "forward");
  const auto nameless = std::make_shared<const CodePlace>(CodePlace{"", 0, "wait for the GPU", 0});
  std::vector<StepAt> steps;
  for (int i = 0; i < 9; ++i) {
    auto detail = std::make_shared<StepDetail>();
    detail->pieces = {{.part = StepPart::forward, .place = forward, .length_ms = 2},
                      {.part = StepPart::sync, .place = nameless, .from_ms = 3, .length_ms = 4},
                      {.part = StepPart::sync, .place = nameless, .from_ms = 8, .length_ms = 1}};
    if (i % 3 == 0) detail->looks.push_back({5, 10, place(20, "masked<loss")});
    if (i == 1) detail->looks.push_back({8.5, 10, place(31, "")});
    StepMark step;
    step.index = i;
    step.duration_ms = 10;
    step.detail = std::move(detail);
    steps.push_back({10.0 * i, std::move(step)});
  }

  name_rests(steps);

  for (const StepAt& entry : steps) {
    const auto& pieces = entry.step.detail->pieces;
    EXPECT_EQ(*pieces.at(1).place, (CodePlace{"train.py", 20, "wait for the GPU", 0}));
    EXPECT_EQ(pieces.at(2).place->line, 31) << "the second one behind the same piece";
  }
}

TEST(RestNames, GiveASleepWithinAForwardItsLine) {
  const auto forward = place(12, "forward");
  const auto nameless = std::make_shared<const CodePlace>(CodePlace{"", 0, "clock_nanosleep", 0});
  std::vector<StepAt> steps;
  for (int i = 0; i < 9; ++i) {
    auto detail = std::make_shared<StepDetail>();
    detail->pieces = {
        {.part = StepPart::forward, .place = forward, .length_ms = 6, .own_ms = 2},
        {.part = StepPart::other, .place = nameless, .from_ms = 1, .length_ms = 4, .own_ms = 4}};
    if (i % 3 == 0) detail->looks.push_back({3, 10, place(8, "forward")});
    StepMark step;
    step.index = i;
    step.duration_ms = 10;
    step.spans_ms[index_of(StepPart::other)] = 8;
    step.detail = std::move(detail);
    steps.push_back({10.0 * i, std::move(step)});
  }

  name_rests(steps);

  for (const StepAt& entry : steps) {
    EXPECT_EQ(entry.step.detail->pieces.at(1).place->line, 8);
    EXPECT_EQ(entry.step.detail->pieces.at(1).part, StepPart::other);
    EXPECT_NEAR(*entry.step.spans_ms[index_of(StepPart::other)], 8, 1e-9);
  }
}

// A line of every tenth step, where the other nine spend 0.1 ms.
TEST(RestNames, GiveAnOddLengthToWhatWasSeenInThoseSteps) {
  auto steps = steps_with(place(20, "the line itself"));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    auto detail = std::make_shared<StepDetail>(*steps[i].step.detail);
    const bool is_long = i % 10 == 3;
    detail->rests.front().length_ms = is_long ? 400 : 0.1;
    detail->looks.clear();
    if (is_long) detail->looks.push_back({8, 10, place(31, "draw")});
    if (i % 10 == 6) detail->looks.push_back({6.05, 10, place(20, "")});
    steps[i].step.detail = std::move(detail);
  }

  name_rests(steps);

  for (std::size_t i = 0; i < steps.size(); ++i)
    EXPECT_EQ(steps[i].step.detail->pieces.at(0).place->line, i % 10 == 3 ? 31 : 20) << i;
}

TEST(RestNames, AnInterruptedStretchIsStillTheUsualOne) {
  auto steps = steps_with(place(20, "wandb:log<report"));
  auto detail = std::make_shared<StepDetail>(*steps[7].step.detail);
  detail->rests.front().length_ms = 60;
  steps[7].step.detail = std::move(detail);

  name_rests(steps);

  EXPECT_EQ(steps[7].step.detail->pieces.at(0).place->line, 20);
}

// Steps of a loader, both passes and an update, with a look into the stretch behind the backward
// pass.
std::vector<StepAt> whole_steps(const std::shared_ptr<const CodePlace>& looked_at, double rest_from,
                                double look_at, bool has_gpu = false) {
  std::vector<StepAt> steps;
  for (int i = 0; i < 30; ++i) {
    auto detail = std::make_shared<StepDetail>();
    const auto piece = [&](StepPart part, int line, double from, double length) {
      detail->pieces.push_back({.part = part,
                                .place = place(line, "hooked"),
                                .from_ms = from,
                                .length_ms = length,
                                .own_ms = length});
    };
    piece(StepPart::data_wait, 10, 0, 1);
    piece(StepPart::forward, 12, 2, 2);
    piece(StepPart::backward, 13, 5, 2);
    piece(StepPart::optimizer, 14, 9, 1);
    detail->rests.push_back({rest_from, 1, nullptr, nullptr, {}});
    if (i % 3 == 0) detail->looks.push_back({look_at, 10, looked_at});
    StepMark step;
    step.index = i;
    step.duration_ms = 10;
    step.spans_ms[index_of(StepPart::forward)] = 2;
    step.spans_ms[index_of(StepPart::other)] = 1;
    if (has_gpu) step.gpu_ran_dry = false;
    step.detail = std::move(detail);
    steps.push_back({10.0 * i, std::move(step)});
  }
  name_rests(steps);
  return steps;
}

TEST(RestNames, TorchBehindTheBackwardPassIsTheProgramsOwnCode) {
  const auto norms = whole_steps(place(20, "torch:norm<norms_of"), 7.5, 8);
  const auto loss = whole_steps(place(20, "torch:cross_entropy<train"), 4, 4.5);

  const auto launched = whole_steps(place(20, "torch:norm<norms_of"), 7.5, 8, true);

  EXPECT_NEAR(*norms[5].step.spans_ms[index_of(StepPart::forward)], 2, 1e-9);
  EXPECT_NEAR(*norms[5].step.spans_ms[index_of(StepPart::other)], 1, 1e-9);
  EXPECT_NEAR(*launched[5].step.spans_ms[index_of(StepPart::forward)], 3, 1e-9)
      << "beside a GPU that is launching";
  EXPECT_NEAR(*loss[5].step.spans_ms[index_of(StepPart::forward)], 3, 1e-9);
}

TEST(RestNames, NumpyWithinAPassIsTheProgramsOwnCode) {
  auto steps = whole_steps(place(20, ""), 7.5, 8);
  for (StepAt& entry : steps) {
    auto detail = std::make_shared<StepDetail>(*entry.step.detail);
    static const auto forward = place(12, "hooked");  // one place each, as the reader makes it
    static const auto hook = place(31, "numpy:percentile<spy");
    detail->pieces[1].place = forward;
    detail->looks = {{2.5, 10, hook}, {3.5, 10, place(12, "")}};
    entry.step.detail = std::move(detail);
  }
  name_rests(steps);

  EXPECT_NEAR(*steps[5].step.spans_ms[index_of(StepPart::forward)], 1, 1e-9);
  EXPECT_EQ(steps[5].step.detail->pieces.back().place->line, 31);
}

TEST(RestNames, TheRestOfALineThatMakesABatchIsTheBatchs) {
  auto steps =
      steps_with(std::make_shared<const CodePlace>(CodePlace{"train.py", 7, "make_batch", 12}));
  const auto line = place(12, "");
  for (std::size_t i = 1; i < steps.size(); i += 3) {
    auto detail = std::make_shared<StepDetail>(*steps[i].step.detail);
    detail->looks.push_back({8, 10, line});
    steps[i].step.detail = std::move(detail);
  }

  name_rests(steps);

  EXPECT_NEAR(*steps[5].step.spans_ms[index_of(StepPart::data_wait)], 4, 1e-9);
}

TEST(RestNames, AreTheSameWhenAskedTwice) {
  auto steps = steps_with(place(20, "wandb:log"));

  name_rests(steps);
  name_rests(steps);

  EXPECT_NEAR(*steps[3].step.spans_ms[index_of(StepPart::logging)], 4, 1e-9);
}

TEST(RestNames, MoveTheGpusRestAlong) {
  auto steps = steps_with(place(20, "wandb:log<report"));
  for (StepAt& entry : steps) {
    entry.step.on_devices = StepOnDevices();
    entry.step.on_devices->idle_ms[index_of(StepPart::other)] = 3;
  }

  name_rests(steps);

  EXPECT_NEAR(steps[5].step.on_devices->idle_ms[index_of(StepPart::logging)], 3, 1e-9);
  EXPECT_NEAR(steps[5].step.on_devices->idle_ms[index_of(StepPart::other)], 0, 1e-9);
}

// for parameter in parameters: parameter.norm().item()
std::vector<StepAt> waits_again_and_again(int line_between) {
  const auto item = place(14, "Tensor.item");
  auto steps = steps_with(place(line_between, "step"));
  for (StepAt& entry : steps) {
    auto detail = std::make_shared<StepDetail>(*entry.step.detail);
    detail->pieces.push_back({.part = StepPart::sync, .place = item, .length_ms = 1, .own_ms = 1});
    detail->rests = {{6, 4, item, item, {}}};
    entry.step.detail = std::move(detail);
  }
  return steps;
}

TEST(RestNames, BetweenTwoWaitsOfALineAreTheWaits) {
  auto steps = waits_again_and_again(14);
  name_rests(steps);
  EXPECT_NEAR(*steps[5].step.spans_ms[index_of(StepPart::sync)], 4, 1e-9);

  auto other = waits_again_and_again(15);
  name_rests(other);
  EXPECT_NEAR(*other[5].step.spans_ms[index_of(StepPart::other)], 4, 1e-9)
      << "what another line does is that line's";
}

TEST(PartOfFunctions, AModelThatIsCopiedIsNobodysPass) {
  EXPECT_EQ(part_of_functions("torch:__deepcopy__<step"), StepPart::other);
  EXPECT_EQ(part_of_functions("torch:__getstate__<step"), StepPart::other);
  EXPECT_EQ(part_of_functions("torch:_save_to_state_dict<step"), StepPart::other);
  EXPECT_EQ(part_of_functions("torch:__deepcopy__<save_checkpoint"), StepPart::checkpoint);
  EXPECT_EQ(part_of_functions("torch:linear<step"), StepPart::forward);
  EXPECT_EQ(part_of_functions("update<train"), StepPart::optimizer) << "one's own optimizer";
  EXPECT_EQ(part_of_functions("apply_gradients<train"), StepPart::optimizer);
  EXPECT_EQ(part_of_functions("update_progress<train"), StepPart::logging);
  EXPECT_EQ(part_of_functions("update_ema<train"), StepPart::other) << "no optimizer's own work";
  EXPECT_EQ(part_of_functions("apply_model<train"), StepPart::other);
}

TEST(PartOfFunctions, GoesByWholeWordsInnermostFirst) {
  EXPECT_EQ(part_of_functions("log_metrics"), StepPart::logging);
  EXPECT_EQ(part_of_functions("logMetrics"), StepPart::logging);
  EXPECT_EQ(part_of_functions("catalog"), StepPart::other);
  EXPECT_EQ(part_of_functions("write<save_best<after_step"), StepPart::checkpoint);
  EXPECT_EQ(part_of_functions("torch:cross_entropy"), StepPart::forward);
  EXPECT_EQ(part_of_functions("torch:clip_grad_norm_"), StepPart::optimizer);
  EXPECT_EQ(part_of_functions("torch.optim:wrapper"), StepPart::optimizer);
  EXPECT_EQ(part_of_functions(
                "re:_compile<transformers:_save_checkpoint<transformers:_maybe_log_save_evaluate"),
            StepPart::checkpoint);
  EXPECT_EQ(part_of_functions("fsspec:flush<lightning:save<lightning:log_metrics"),
            StepPart::logging)
      << "a logger's save";
  EXPECT_EQ(part_of_functions("fsspec:flush<save<train"), StepPart::checkpoint);
  EXPECT_EQ(part_of_functions("re:sub<transformers:_save<transformers:_maybe_log_save_evaluate"),
            StepPart::checkpoint);
  EXPECT_EQ(part_of_functions("torch:linear<evaluate"), StepPart::evaluation)
      << "what a user's function is for says more";
  EXPECT_EQ(part_of_functions("PIL:resize<__getitem__"), StepPart::data_wait);
  EXPECT_EQ(part_of_functions("threading:wait<__iter__"), StepPart::data_wait)
      << "a prefetcher of one's own";
  EXPECT_EQ(part_of_functions(""), StepPart::other);
}

}  // namespace
}  // namespace lockstep
