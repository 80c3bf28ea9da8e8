#include "reference_trainer/model/mlp.hpp"

#include <cmath>

namespace lockstep {

Mlp::Mlp(const ModelShape& shape, const ModelOptions& options, at::Generator& generator)
    : Model(options) {
  std::int64_t from = shape.vocabulary;  // columns of a row
  for (std::int64_t layer = 0; layer <= shape.layers; ++layer) {
    const bool is_last = layer == shape.layers;
    const std::int64_t to = is_last ? 1 : shape.width;
    const std::string name = is_last ? "out" : "hidden." + std::to_string(layer);
    const double bound = 1 / std::sqrt(static_cast<double>(from));  // as torch.nn.Linear
    weights_.push_back(add(name + ".weight",
                           at::empty({to, from}).uniform_(-bound, bound, generator),
                           static_cast<int>(layer)));
    biases_.push_back(add(name + ".bias", at::empty({to}).uniform_(-bound, bound, generator),
                          static_cast<int>(layer)));
    from = to;
  }
  set_parts(static_cast<int>(weights_.size()));
}

Tensor Mlp::run_part(int part, const Tensor& x, const Tensor&) {
  const auto place = static_cast<std::size_t>(part);
  const Tensor out = at::linear(x, weights_[place], biases_[place]);
  return is_block(part) ? drop(at::relu(out)) : out.squeeze(-1);
}

}  // namespace lockstep
