// GPT-2: learned positions, norm before each half of a block, GELU, and a head that is the token
// table again.
#pragma once

#include <memory>

#include "reference_trainer/cuda/cuda_part.hpp"
#include "reference_trainer/model/gpt_weights.hpp"
#include "reference_trainer/model/model.hpp"

namespace lockstep {

class Gpt : public Model {
 public:
  Gpt(const ModelShape& shape, const ModelOptions& options, at::Generator& generator);

  Tensor loss(const Tensor& output, const Tensor& targets) const override;
  Tensor whole_loss(const Tensor& inputs, const Tensor& targets) override;
  Tensor tied_weight() const override { return weights_.token_table; }
  double part_cost(int part) const override;

 protected:
  Tensor run_part(int part, const Tensor& x, const Tensor& head_weight) override;
  bool is_block(int part) const override { return part > 0 && part <= shape_.layers; }

 private:
  GptNorm add_norm(const std::string& name, int part);
  GptLinear add_linear(const std::string& name, std::int64_t from, std::int64_t to,
                       double deviation, int part);
  Tensor normal(at::IntArrayRef size, double deviation);
  Tensor normed(const Tensor& x, const GptNorm& norm) const {
    return at::layer_norm(x, {shape_.width}, norm.weight, norm.bias);
  }

  bool may_be_fused() const;
  Tensor embed(const Tensor& tokens) const;
  Tensor attend(const GptBlock& block, const Tensor& x) const;
  Tensor run_block(const GptBlock& block, const Tensor& x) const;
  Tensor run_head(const Tensor& x, const Tensor& weight) const;

  const ModelShape shape_;
  at::Generator* generator_;  // of the constructor
  GptWeights weights_;
  bool fused_was_tried_ = false;
  std::unique_ptr<FusedPass> fused_;  // nothing: the plain pass
};

}  // namespace lockstep
