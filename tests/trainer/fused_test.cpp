// The pass in kernels of our own against ATen's. On a machine with a GPU of Hopper's kind or newer;
// elsewhere skipped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference_trainer/cuda/cuda_part.hpp"
#include "reference_trainer/data/dataset.hpp"
#include "reference_trainer/model/model.hpp"
#include "reference_trainer/precision.hpp"

namespace lockstep {
static void PrintTo(const ModelShape& shape, std::ostream* out) {
  *out << shape.layers << " layers of " << shape.width;
}
namespace {

struct Pass {
  double loss = 0;
  std::vector<Tensor> gradients;
};

enum class Kind : std::uint8_t { exact, autocast, fused };

class Fused : public ::testing::TestWithParam<ModelShape> {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0)
      GTEST_SKIP() << "no GPU: "
                   << (why_no_cuda().empty() ? "the driver shows none" : why_no_cuda());
    allow_tensor_cores(Precision::bf16);
  }

  static Batch batch_for(const ModelShape& shape, std::int64_t samples) {
    at::Generator generator = at::detail::createCPUGenerator(7);
    const auto tokens = [&] {
      return at::randint(0, shape.vocabulary, {samples, shape.sequence_length}, generator,
                         at::kLong)
          .to(at::kCUDA);
    };
    return {tokens(), tokens()};
  }

  // Weights that are no start's: a norm of ones and a bias of zeros would hide mistakes.
  static Pass run(const ModelShape& shape, const Batch& batch, Kind kind, double weight = 1,
                  int passes = 1) {
    const auto model = make_model(shape, {.fused = kind == Kind::fused}, 3);
    {
      const at::NoGradGuard no_grad;
      at::Generator generator = at::detail::createCPUGenerator(11);
      for (const Parameter& parameter : model->parameters())
        const_cast<Tensor&>(parameter.value)
            .add_(at::empty(parameter.value.sizes()).normal_(0, 0.02, generator));
    }
    model->move_to(at::Device(at::kCUDA, 0), model->all_parts());
    Pass pass;
    for (int i = 0; i < passes; ++i) {
      Tensor loss;
      {
        const Autocast autocast(kind == Kind::exact ? Precision::fp32 : Precision::bf16, at::kCUDA);
        loss = model->whole_loss(batch.inputs, batch.targets);
      }
      (loss * weight).backward();
      pass.loss = loss.item<double>();
    }
    for (const Parameter& parameter : model->parameters())
      pass.gradients.push_back(parameter.value.grad());
    return pass;
  }

  static double distance(const Tensor& a, const Tensor& b) {
    return ((a - b).norm() / b.norm()).item<double>();
  }
};

// bf16 rounds: ATen's own pass under autocast is off by some share, and ours may be off by as much.
TEST_P(Fused, IsAsNearToTheTruthAsAutocastIs) {
  const ModelShape shape = GetParam();
  const Batch batch = batch_for(shape, 3);
  allow_tensor_cores(Precision::fp32);
  const Pass truth = run(shape, batch, Kind::exact);
  const Pass autocast = run(shape, batch, Kind::autocast);
  const Pass ours = run(shape, batch, Kind::fused);

  EXPECT_NEAR(ours.loss, truth.loss, 2e-3 * truth.loss);
  const auto model = make_model(shape, {}, 3);
  for (std::size_t i = 0; i < truth.gradients.size(); ++i)
    EXPECT_LE(distance(ours.gradients[i], truth.gradients[i]),
              1.6 * distance(autocast.gradients[i], truth.gradients[i]) + 2e-3)
        << model->parameters()[i].name;
}

TEST_P(Fused, AddsUpOverPassesAndCountsTheLossAsItIsTold) {
  const ModelShape shape = GetParam();
  const Batch batch = batch_for(shape, 2);
  const Pass once = run(shape, batch, Kind::fused);
  const Pass four_quarters = run(shape, batch, Kind::fused, 0.25, 4);

  // each model chooses its products' algorithms: they round differently
  for (std::size_t i = 0; i < once.gradients.size(); ++i)
    EXPECT_LE(distance(four_quarters.gradients[i], once.gradients[i]), 1e-2) << i;
}

INSTANTIATE_TEST_SUITE_P(Shapes, Fused,
                         ::testing::Values(ModelShape{ModelKind::gpt, 2, 4, 256, 128, 1003},
                                           ModelShape{ModelKind::gpt, 2, 12, 768, 256, 50257},
                                           ModelShape{ModelKind::gpt, 1, 25, 1600, 64, 50257},
                                           ModelShape{ModelKind::gpt, 3, 2, 64, 40, 256}),
                         [](const auto& shape) {
                           return "Width" + std::to_string(shape.param.width);
                         });

}  // namespace
}  // namespace lockstep
