// The lessons' small net: rows of numbers in, one number out.
#pragma once

#include <vector>

#include "reference_trainer/model/model.hpp"

namespace lockstep {

class Mlp : public Model {
 public:
  Mlp(const ModelShape& shape, const ModelOptions& options, at::Generator& generator);

  Tensor loss(const Tensor& output, const Tensor& targets) const override {
    return at::mse_loss(output, targets);
  }
  double part_cost(int part) const override {
    return static_cast<double>(weights_[static_cast<std::size_t>(part)].numel());
  }

 protected:
  Tensor run_part(int part, const Tensor& x, const Tensor& head_weight) override;
  bool is_block(int part) const override { return part + 1 < static_cast<int>(weights_.size()); }

 private:
  std::vector<Tensor> weights_;
  std::vector<Tensor> biases_;
};

}  // namespace lockstep
