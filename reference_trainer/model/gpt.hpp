// GPT-2: learned positions, norm before each half of a block, GELU, and a head that is the token table again.
#pragma once

#include <vector>

#include "reference_trainer/model/model.hpp"

namespace lockstep {

class Gpt : public Model {
 public:
  Gpt(const ModelShape& shape, const ModelOptions& options, at::Generator& generator);

  Tensor loss(const Tensor& output, const Tensor& targets) const override;
  Tensor tied_weight() const override { return token_table_; }
  double part_cost(int part) const override;

 protected:
  Tensor run_part(int part, const Tensor& x, const Tensor& head_weight) override;
  bool is_block(int part) const override { return part > 0 && part <= shape_.layers; }

 private:
  struct Norm {
    Tensor weight, bias;
  };
  struct Linear {
    Tensor weight, bias;
    Tensor operator()(const Tensor& x) const { return at::linear(x, weight, bias); }
  };
  struct Block {
    Norm before_attention;
    Linear query_key_value, attention_out;
    Norm before_feed_forward;
    Linear widen, narrow;
  };
  Norm add_norm(const std::string& name, int part);
  Linear add_linear(const std::string& name, std::int64_t from, std::int64_t to, double deviation, int part);
  Tensor normal(at::IntArrayRef size, double deviation);
  Tensor normed(const Tensor& x, const Norm& norm) const { return at::layer_norm(x, {shape_.width}, norm.weight, norm.bias); }

  Tensor embed(const Tensor& tokens) const;
  Tensor attend(const Block& block, const Tensor& x) const;
  Tensor run_block(const Block& block, const Tensor& x) const;
  Tensor run_head(const Tensor& x, const Tensor& weight) const;

  const ModelShape shape_;
  at::Generator* generator_;  // of the constructor
  Tensor token_table_;
  Tensor position_table_;
  std::vector<Block> blocks_;
  Norm last_norm_;
};

}  // namespace lockstep
