// The tensors of a GPT, by their place in it.
#pragma once

#include <vector>

#include "reference_trainer/torch_headers.hpp"

namespace lockstep {

struct GptNorm {
  Tensor weight, bias;
};

struct GptLinear {
  Tensor weight, bias;  // out x in
  Tensor operator()(const Tensor& x) const { return at::linear(x, weight, bias); }
};

struct GptBlock {
  GptNorm before_attention;
  GptLinear query_key_value, attention_out;
  GptNorm before_feed_forward;
  GptLinear widen, narrow;
};

struct GptWeights {
  Tensor token_table;
  Tensor position_table;
  std::vector<GptBlock> blocks;
  GptNorm last_norm;
};

}  // namespace lockstep
