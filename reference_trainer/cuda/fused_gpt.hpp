// GPT's pass in bf16 with kernels of our own: what lies between two matrix products is done in one
// trip to memory or on the products' way out, logits are never stored in fp32, and attention is
// cuDNN's. The plain ATen pass says the same in numbers (tests/trainer/fused_test.cpp) and stays
// for everything else: other precisions, dropout, frozen blocks, split models.
#pragma once

#include <memory>

#include "reference_trainer/cuda/cuda_part.hpp"
#include "reference_trainer/model/gpt_weights.hpp"
#include "training/model_shapes.hpp"

namespace lockstep {

// Nothing where the shape does not fit the kernels.
std::unique_ptr<FusedPass> make_fused_gpt(const GptWeights& weights, const ModelShape& shape);

}  // namespace lockstep
