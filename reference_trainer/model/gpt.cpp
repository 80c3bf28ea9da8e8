#include "reference_trainer/model/gpt.hpp"

#include <cmath>
#include <utility>

#include "reference_trainer/model/gelu.hpp"
#include "reference_trainer/precision.hpp"

namespace lockstep {

// Names as in nanoGPT, so that weights can be carried over.
Gpt::Gpt(const ModelShape& shape, const ModelOptions& options, at::Generator& generator)
    : Model(options), shape_(shape), generator_(&generator) {
  const double deviation = 0.02;
  // GPT-2: what is added to the residual stream starts smaller the more often something is added.
  const double residual_deviation = deviation / std::sqrt(2.0 * static_cast<double>(shape.layers));
  const std::int64_t width = shape.width;
  weights_.token_table =
      add("transformer.wte.weight", normal({shape.vocabulary, width}, deviation), 0);
  weights_.position_table =
      add("transformer.wpe.weight", normal({shape.sequence_length, width}, deviation), 0);
  for (int layer = 0; layer < shape.layers; ++layer) {
    const std::string name = "transformer.h." + std::to_string(layer) + ".";
    const int part = layer + 1;
    GptBlock block;
    block.before_attention = add_norm(name + "ln_1", part);
    block.query_key_value = add_linear(name + "attn.c_attn", width, 3 * width, deviation, part);
    block.attention_out = add_linear(name + "attn.c_proj", width, width, residual_deviation, part);
    block.before_feed_forward = add_norm(name + "ln_2", part);
    block.widen = add_linear(name + "mlp.c_fc", width, 4 * width, deviation, part);
    block.narrow = add_linear(name + "mlp.c_proj", 4 * width, width, residual_deviation, part);
    weights_.blocks.push_back(block);
  }
  const int head = static_cast<int>(shape.layers) + 1;
  weights_.last_norm = add_norm("transformer.ln_f", head);
  set_parts(head + 1);
}

Tensor Gpt::normal(at::IntArrayRef size, double deviation) {
  return at::empty(size).normal_(0, deviation, *generator_);
}

GptNorm Gpt::add_norm(const std::string& name, int part) {
  return {add(name + ".weight", at::ones({shape_.width}), part),
          add(name + ".bias", at::zeros({shape_.width}), part)};
}

GptLinear Gpt::add_linear(const std::string& name, std::int64_t from, std::int64_t to,
                          double deviation, int part) {
  return {add(name + ".weight", normal({to, from}, deviation), part),
          add(name + ".bias", at::zeros({to}), part)};
}

Tensor Gpt::run_part(int part, const Tensor& x, const Tensor& head_weight) {
  if (part == 0) return embed(x);
  if (is_block(part)) return run_block(weights_.blocks[static_cast<std::size_t>(part - 1)], x);
  return run_head(x, head_weight.defined() ? head_weight : weights_.token_table);
}

Tensor Gpt::embed(const Tensor& tokens) const {
  const Tensor positions = weights_.position_table.narrow(0, 0, tokens.size(1));
  return drop(at::embedding(weights_.token_table, tokens) + positions);
}

Tensor Gpt::attend(const GptBlock& block, const Tensor& x) const {
  const std::int64_t batch = x.size(0);
  const std::int64_t time = x.size(1);
  const std::int64_t head_width = shape_.width / shape_.heads;
  // [batch, time, 3, heads, head width] to three of [batch, heads, time, head width]
  const Tensor together = block.query_key_value(x)
                              .view({batch, time, 3, shape_.heads, head_width})
                              .permute({2, 0, 3, 1, 4});
  const Tensor mixed = at::scaled_dot_product_attention(together[0], together[1], together[2], {},
                                                        0.0, /*is_causal=*/true);
  return block.attention_out(mixed.transpose(1, 2).reshape({batch, time, shape_.width}));
}

Tensor Gpt::run_block(const GptBlock& block, const Tensor& x) const {
  const Tensor after_attention = x + drop(attend(block, normed(x, block.before_attention)));
  const Tensor widened = tanh_gelu(block.widen(normed(after_attention, block.before_feed_forward)));
  return after_attention + drop(block.narrow(widened));
}

Tensor Gpt::run_head(const Tensor& x, const Tensor& weight) const {
  return at::linear(normed(x, weights_.last_norm), weight);
}

Tensor Gpt::loss(const Tensor& output, const Tensor& targets) const {
  return at::cross_entropy_loss(output.reshape({-1, output.size(-1)}), targets.reshape({-1}));
}

bool Gpt::may_be_fused() const {
  const ModelOptions& asked = options();
  const Tensor& first = weights_.token_table;
  return asked.fused && first.is_cuda() && asked.dropout == 0 && asked.freeze == 0 &&
         !asked.activation_checkpointing && Autocast::of_this_thread(at::kCUDA) == Precision::bf16;
}

Tensor Gpt::whole_loss(const Tensor& inputs, const Tensor& targets) {
  if (!std::exchange(fused_was_tried_, true) && may_be_fused())
    fused_ = cuda_part()->make_fused_gpt(weights_, shape_);
  return fused_ ? fused_->loss(inputs, targets) : Model::whole_loss(inputs, targets);
}

double Gpt::part_cost(int part) const {
  const auto width = static_cast<double>(shape_.width);
  if (part == 0) return 0;
  if (is_block(part))
    return 12 * width * width + 2 * width * static_cast<double>(shape_.sequence_length);
  return width * static_cast<double>(shape_.vocabulary);
}

}  // namespace lockstep
