#include "reference_trainer/model/gelu.hpp"

namespace lockstep {
namespace {

constexpr double kCubic = 0.044715;
constexpr double kScale = 1.5957691216057308;  // 2 sqrt(2 / pi)

struct SigmoidGelu : torch::autograd::Function<SigmoidGelu> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x) {
    // x sigmoid(scale (x + cubic x^3)), in place as far as can be: memory is what it costs
    Tensor gate = x * x;
    gate.mul_(kScale * kCubic).add_(kScale).mul_(x).sigmoid_();
    context->save_for_backward({x, gate});
    return x * gate;
  }

  // gate + x gate (1 - gate) scale (1 + 3 cubic x^2)
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor& x = saved[0];
    const Tensor& gate = saved[1];
    Tensor slope = x * x;
    slope.mul_(3 * kScale * kCubic).add_(kScale).mul_(x);
    slope.addcmul_(slope, gate, -1).add_(1).mul_(gate).mul_(gradients[0]);
    return {slope};
  }
};

}  // namespace

Tensor tanh_gelu(const Tensor& x) {
  if (!x.is_cpu() || x.scalar_type() != at::kFloat) return at::gelu(x, "tanh");
  return SigmoidGelu::apply(x);
}

}  // namespace lockstep
