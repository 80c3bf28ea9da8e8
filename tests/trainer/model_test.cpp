#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "reference_trainer/model/gelu.hpp"
#include "reference_trainer/model/model.hpp"
#include "reference_trainer/optimizer.hpp"

namespace lockstep {
namespace {

ModelShape tiny_gpt() { return {ModelKind::gpt, 2, 2, 8, 6, 11}; }

Batch tokens_for(const ModelShape& shape, std::int64_t samples) {
  at::Generator generator = at::detail::createCPUGenerator(7);
  return {at::randint(0, shape.vocabulary, {samples, shape.sequence_length}, generator, at::kLong),
          at::randint(0, shape.vocabulary, {samples, shape.sequence_length}, generator, at::kLong)};
}

std::vector<Tensor> gradients_of(const Model& model) {
  std::vector<Tensor> list;
  for (const Parameter& parameter : model.parameters())
    list.push_back(parameter.value.grad().defined() ? parameter.value.grad() : Tensor());
  return list;
}

TEST(Gpt, HasAsManyParametersAsItsShapeSays) {
  const auto model = make_model(tiny_gpt(), {}, 1);
  std::int64_t count = 0;
  for (const Parameter& parameter : model->parameters()) count += parameter.value.numel();

  EXPECT_EQ(count, parameter_count(tiny_gpt()));
}

TEST(Gpt, HasGradientsThatAgreeWithFiniteDifferences) {
  const ModelShape shape = tiny_gpt();
  const auto model = make_model(shape, {}, 1);
  for (const Parameter& parameter : model->parameters())
    const_cast<Tensor&>(parameter.value).set_data(parameter.value.to(at::kDouble));
  const Batch batch = tokens_for(shape, 2);
  const auto loss = [&] {
    return model->loss(model->forward(batch.inputs, model->all_parts()), batch.targets);
  };
  loss().backward();

  // Every parameter, three of its numbers: symmetric differences in double precision.
  for (const Parameter& parameter : model->parameters()) {
    const at::NoGradGuard no_grad;
    Tensor flat = parameter.value.detach().view({-1});
    for (const std::int64_t place : {std::int64_t{0}, flat.numel() / 2, flat.numel() - 1}) {
      const double step = 1e-5;
      const double value = flat[place].item<double>();
      flat[place] = value + step;
      const double above = loss().item<double>();
      flat[place] = value - step;
      const double below = loss().item<double>();
      flat[place] = value;
      const double gradient = parameter.value.grad().view({-1})[place].item<double>();
      EXPECT_NEAR(gradient, (above - below) / (2 * step), 1e-7) << parameter.name << " " << place;
    }
  }
}

TEST(Gpt, LooksAtNoTokenOfTheFuture) {
  const ModelShape shape = tiny_gpt();
  const auto model = make_model(shape, {}, 1);
  Batch batch = tokens_for(shape, 1);
  const Tensor before = model->forward(batch.inputs, model->all_parts());
  batch.inputs[0][4] = (batch.inputs[0][4] + 1) % shape.vocabulary;

  const Tensor after = model->forward(batch.inputs, model->all_parts());

  EXPECT_TRUE(at::allclose(before.narrow(1, 0, 4), after.narrow(1, 0, 4)));
  EXPECT_FALSE(at::allclose(before.narrow(1, 4, 2), after.narrow(1, 4, 2)));
}

TEST(Gelu, IsATensToTheLastDigits) {
  const Tensor x = at::linspace(-12, 12, 100'001).requires_grad_(true);
  const Tensor reference = x.detach().requires_grad_(true);
  const Tensor ours = tanh_gelu(x);
  const Tensor theirs = at::gelu(reference, "tanh");
  ours.sum().backward();
  theirs.sum().backward();

  EXPECT_TRUE(at::allclose(ours, theirs, 1e-6, 2e-6));
  // tanh is an approximation too, another on each processor
  EXPECT_TRUE(at::allclose(x.grad(), reference.grad(), 1e-6, 5e-6));
}

TEST(Gelu, HasNoSurpriseFarOut) {
  const Tensor x = at::tensor({-1e4F, 1e4F, 0.0F}).requires_grad_(true);
  const Tensor y = tanh_gelu(x);
  y.sum().backward();

  EXPECT_TRUE(at::allclose(y, at::tensor({0.0F, 1e4F, 0.0F})));
  EXPECT_TRUE(at::allclose(x.grad(), at::tensor({0.0F, 1.0F, 0.5F})));
}

TEST(Model, HasTheSameGradientsWhenBlocksAreComputedTwice) {
  const ModelShape shape = tiny_gpt();
  for (const double dropout : {0.0, 0.3}) {
    std::vector<std::vector<Tensor>> gradients;
    for (const bool checkpointing : {false, true}) {
      const auto model =
          make_model(shape, {.dropout = dropout, .activation_checkpointing = checkpointing}, 1);
      at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
      generator.set_current_seed(99);
      const Batch batch = tokens_for(shape, 2);
      model->loss(model->forward(batch.inputs, model->all_parts()), batch.targets).backward();
      gradients.push_back(gradients_of(*model));
    }
    for (std::size_t i = 0; i < gradients[0].size(); ++i)
      EXPECT_TRUE(at::allclose(gradients[0][i], gradients[1][i], 1e-5, 1e-7))
          << i << " dropout " << dropout;
  }
}

TEST(Model, TrainsNoFrozenBlock) {
  const ModelShape shape = tiny_gpt();
  const auto model = make_model(shape, {.freeze = 1}, 1);
  const Batch batch = tokens_for(shape, 2);

  model->loss(model->forward(batch.inputs, model->all_parts()), batch.targets).backward();

  for (const Parameter& parameter : model->parameters())
    EXPECT_EQ(parameter.value.grad().defined(), parameter.name.find(".h.0.") == std::string::npos)
        << parameter.name;
  EXPECT_EQ(model->trainable(model->all_parts()).size(), model->parameters().size() - 12);
}

TEST(Model, IsCutIntoPiecesOfNearlyEqualWork) {
  const auto model = make_model({ModelKind::gpt, 8, 2, 16, 8, 64}, {}, 1);
  double whole = 0;
  for (int part = 0; part < model->parts(); ++part) whole += model->part_cost(part);

  for (int pieces = 1; pieces <= 4; ++pieces) {
    const auto ranges = cut_into(*model, pieces);
    ASSERT_EQ(static_cast<int>(ranges.size()), pieces);
    int next = 0;
    for (const PartRange& range : ranges) {
      EXPECT_EQ(range.from, next);
      next = range.to;
      double work = 0;
      for (int part = range.from; part < range.to; ++part) work += model->part_cost(part);
      EXPECT_NEAR(work, whole / pieces, whole / 8) << pieces;
    }
    EXPECT_EQ(next, model->parts());
  }
}

TEST(LearningRate, GoesUpThenDownACosine) {
  TrainSettings settings;
  settings.learning_rate = 1;
  settings.min_learning_rate = 0.1;
  settings.warmup_steps = 10;

  EXPECT_DOUBLE_EQ(learning_rate_at(0, settings, 110), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate_at(9, settings, 110), 1);
  EXPECT_DOUBLE_EQ(learning_rate_at(60, settings, 110), 0.55);
  EXPECT_NEAR(learning_rate_at(109, settings, 110), 0.1, 1e-3);
  EXPECT_DOUBLE_EQ(learning_rate_at(500, settings, 110), 0.1);
}

TEST(LossScaler, LeavesAnUpdateOutWhereAGradientOverflowed) {
  const Distributed alone(RankFacts{}, GroupOptions{});
  LossScaler scaler(true, at::kCPU);
  const auto scale = [&] { return scaler.scale().item<double>(); };
  const double first = scale();

  Tensor good = at::full({3}, first);
  scaler.unscale({{good}}, alone);
  EXPECT_EQ(scaler.found_inf().item<float>(), 0);
  EXPECT_FLOAT_EQ(good[0].item<float>(), 1);
  scaler.update();
  EXPECT_EQ(scale(), first);

  Tensor bad = at::full({3}, std::numeric_limits<float>::infinity());
  scaler.unscale({{good}, {bad}}, alone);
  EXPECT_EQ(scaler.found_inf().item<float>(), 1);
  scaler.update();
  EXPECT_EQ(scale(), first / 2);
}

TEST(Optimizer, LeavesParametersAndCountsAsTheyWereAfterAnOverflow) {
  const Distributed alone(RankFacts{}, GroupOptions{});
  ComputeDevice device(c10::DeviceType::CPU, 0);
  Tensor weight = at::ones({2, 2}).requires_grad_(true);
  Optimizer optimizer({{&device, {{"weight", weight, 0}}}}, {});
  LossScaler scaler(true, at::kCPU);

  weight.mutable_grad() = at::full({2, 2}, std::numeric_limits<float>::infinity());
  optimizer.step(0.1, scaler, alone);
  EXPECT_TRUE(at::equal(weight.detach(), at::ones({2, 2})));
  weight.mutable_grad() = at::full({2, 2}, scaler.scale().item<double>());
  optimizer.step(0.1, scaler, alone);

  EXPECT_FALSE(at::equal(weight.detach(), at::ones({2, 2})));
  for (const OptimizerState& part : optimizer.state()) {
    if (!part.name.starts_with("optimizer.step.")) continue;
    EXPECT_EQ(part.value.item<float>(), 1) << "the update that was left out does not count";
  }
}

}  // namespace
}  // namespace lockstep
