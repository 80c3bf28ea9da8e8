#include "reference_trainer/cuda/fused_gpt.hpp"

#include <ATen/cuda/CUDAContext.h>

#include <algorithm>
#include <array>

#include "reference_trainer/cuda/half_copies.hpp"
#include "reference_trainer/cuda/kernels/kernels.hpp"
#include "reference_trainer/cuda/matmul.hpp"

namespace lockstep {
namespace {

using kernels::Half;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// 50257 becomes 50304: tensor cores take whole tiles, and rows stay aligned
constexpr std::int64_t kVocabularyStep = 64;

Half* halves(const Tensor& tensor) {
  return reinterpret_cast<Half*>(tensor.data_ptr<at::BFloat16>());
}
float* floats(const Tensor& tensor) { return tensor.data_ptr<float>(); }
cudaStream_t current_stream() { return at::cuda::getCurrentCUDAStream(); }
Tensor new_halves(const Tensor& beside, at::IntArrayRef size) {
  return at::empty(size, beside.options().dtype(at::kBFloat16));
}
Tensor new_floats(const Tensor& beside, at::IntArrayRef size) {
  return at::empty(size, beside.options().dtype(at::kFloat));
}

// Places of a block's tensors in the lists that autograd hands around.
enum BlockPlace : std::size_t {
  norm1_weight,
  norm1_bias,
  qkv_weight,
  qkv_bias,
  out_weight,
  out_bias,
  norm2_weight,
  norm2_bias,
  widen_weight,
  widen_bias,
  narrow_weight,
  narrow_bias,
  block_places
};

std::array<Tensor, block_places> tensors_of(const GptBlock& block) {
  return {block.before_attention.weight,
          block.before_attention.bias,
          block.query_key_value.weight,
          block.query_key_value.bias,
          block.attention_out.weight,
          block.attention_out.bias,
          block.before_feed_forward.weight,
          block.before_feed_forward.bias,
          block.widen.weight,
          block.widen.bias,
          block.narrow.weight,
          block.narrow.bias};
}

struct Normed {
  Tensor value, mean, inverse_deviation;
  kernels::NormSaved saved() const { return {floats(mean), floats(inverse_deviation)}; }
};

// Causal attention over queries, keys and values that lie together as [samples, length, 3, heads,
// head width].
struct Attention {
  Tensor together, mixed, sums, seed, offset;

  static Tensor part(const Tensor& together, std::int64_t which) {
    return together.select(2, which).transpose(1, 2);
  }

  explicit Attention(const Tensor& together_) : together(together_) {
    const auto [out, log_sums, unused_q, unused_k, most_queries, most_keys, seed_, offset_, mask] =
        at::_scaled_dot_product_cudnn_attention(part(together, 0), part(together, 1),
                                                part(together, 2), {}, /*compute_log_sumexp=*/true,
                                                0.0, /*is_causal=*/true, false);
    mixed = out.transpose(1, 2);
    sums = log_sums;
    seed = seed_;
    offset = offset_;
  }
  Attention(const Tensor& together_, const Tensor& mixed_, const Tensor& sums_, const Tensor& seed_,
            const Tensor& offset_)
      : together(together_), mixed(mixed_), sums(sums_), seed(seed_), offset(offset_) {}

  // Of queries, keys and values, each as [samples, length, heads, head width] and dense.
  std::array<Tensor, 3> backward(const Tensor& gradient) const {
    const std::int64_t length = together.size(1);
    const auto [q, k, v] = at::_scaled_dot_product_cudnn_attention_backward(
        gradient.transpose(1, 2), part(together, 0), part(together, 1), part(together, 2),
        mixed.transpose(1, 2), sums, seed, offset, {}, {}, {}, length, length, 0.0,
        /*is_causal=*/true);
    return {q.transpose(1, 2).contiguous(), k.transpose(1, 2).contiguous(),
            v.transpose(1, 2).contiguous()};
  }
};

class FusedGpt : public FusedPass {
 public:
  FusedGpt(const GptWeights& weights, const ModelShape& shape)
      : weights_(weights),
        shape_(shape),
        padded_vocabulary_((shape.vocabulary + kVocabularyStep - 1) / kVocabularyStep *
                           kVocabularyStep),
        workspace_(at::empty({static_cast<std::int64_t>(Matmul::kWorkspaceBytes)},
                             weights.token_table.options().dtype(at::kByte))),
        zero_(at::zeros({1}, weights.token_table.options().dtype(at::kFloat))),
        matmul_(workspace_.data_ptr(), floats(zero_)) {
    copies_.add(weights.token_table, padded_vocabulary_);
    for (const GptBlock& block : weights.blocks)
      for (const GptLinear* linear :
           {&block.query_key_value, &block.attention_out, &block.widen, &block.narrow}) {
        copies_.add(linear->weight);
        copies_.add(linear->bias);
      }
  }

  Tensor loss(const Tensor& tokens, const Tensor& targets) override;

  const ModelShape& shape() const { return shape_; }
  std::int64_t padded_vocabulary() const { return padded_vocabulary_; }
  // In half the bytes: a parameter's value of this pass.
  const Tensor& half(const Tensor& parameter) const { return copies_.of(parameter); }
  const GptBlock& block(std::int64_t layer) const {
    return weights_.blocks[static_cast<std::size_t>(layer)];
  }
  const GptWeights& weights() const { return weights_; }

  void multiply(const Product& product) { matmul_(product, current_stream()); }
  // What a layer makes of x, plus `added` where it is defined. With `before_gelu` it is the GELU of
  // that, which is written.
  Tensor through(const Tensor& x, const GptLinear& layer, const Tensor& added = {},
                 const Tensor& before_gelu = {});
  // What a layer passes back to its input, and its weight's gradient.
  Tensor back_through(const Tensor& gradient, const Tensor& weight, const Tensor& gelu_input = {});
  Tensor weight_gradient(const Tensor& gradient, const Tensor& input);
  Tensor bias_gradient(const Tensor& gradient);
  Normed norm(const Tensor& x, const GptNorm& weights) const;

 private:
  GptWeights weights_;
  const ModelShape shape_;
  const std::int64_t padded_vocabulary_;
  Tensor workspace_;
  Tensor zero_;
  Matmul matmul_;
  HalfCopies copies_;
};

Tensor FusedGpt::through(const Tensor& x, const GptLinear& layer, const Tensor& added,
                         const Tensor& before_gelu) {
  const Tensor& weight = half(layer.weight);
  Tensor out = new_halves(x, {x.size(0), weight.size(0)});
  multiply({.rows = x.size(0),
            .columns = weight.size(0),
            .depth = weight.size(1),
            .a = halves(x),
            .b = halves(weight),
            .b_is_turned = true,
            .out = halves(out),
            .bias = halves(half(layer.bias)),
            .added = added.defined() ? halves(added) : nullptr,
            .before_gelu = before_gelu.defined() ? halves(before_gelu) : nullptr});
  return out;
}

Tensor FusedGpt::back_through(const Tensor& gradient, const Tensor& weight,
                              const Tensor& gelu_input) {
  Tensor out = new_halves(gradient, {gradient.size(0), weight.size(1)});
  multiply({.rows = gradient.size(0),
            .columns = weight.size(1),
            .depth = weight.size(0),
            .a = halves(gradient),
            .b = halves(weight),
            .out = halves(out),
            .slope_of_gelu = gelu_input.defined() ? halves(gelu_input) : nullptr});
  return out;
}

Tensor FusedGpt::weight_gradient(const Tensor& gradient, const Tensor& input) {
  Tensor out = new_floats(gradient, {gradient.size(1), input.size(1)});
  multiply({.rows = gradient.size(1),
            .columns = input.size(1),
            .depth = gradient.size(0),
            .a = halves(gradient),
            .b = halves(input),
            .a_is_turned = true,
            .out = floats(out),
            .out_is_float = true});
  return out;
}

Tensor FusedGpt::bias_gradient(const Tensor& gradient) {
  const auto width = static_cast<int>(gradient.size(1));
  Tensor sums = new_floats(gradient, {width});
  const Tensor scratch = new_floats(gradient, {kernels::column_sum_scratch(width)});
  kernels::column_sums(halves(gradient), floats(sums), floats(scratch),
                       static_cast<int>(gradient.size(0)), width, current_stream());
  return sums;
}

Normed FusedGpt::norm(const Tensor& x, const GptNorm& weights) const {
  Normed normed{at::empty_like(x), new_floats(x, {x.size(0)}), new_floats(x, {x.size(0)})};
  kernels::layer_norm(halves(x), floats(weights.weight), floats(weights.bias), halves(normed.value),
                      normed.saved(), static_cast<int>(x.size(0)), static_cast<int>(x.size(1)),
                      current_stream());
  return normed;
}

struct NormBack {
  Tensor x, weight, bias, x_sums;
};

// `past`: the gradient that goes around the norm.
NormBack norm_backward(const Tensor& gradient, const Tensor& past, const Tensor& x,
                       const Tensor& weight, const Normed& saved, bool with_sums) {
  const auto rows = static_cast<int>(x.size(0));
  const auto width = static_cast<int>(x.size(1));
  NormBack back{at::empty_like(x), new_floats(x, {width}), new_floats(x, {width}),
                with_sums ? new_floats(x, {width}) : Tensor()};
  const Tensor scratch = new_floats(x, {kernels::layer_norm_scratch(width)});
  kernels::layer_norm_backward(halves(gradient), past.defined() ? halves(past) : nullptr, halves(x),
                               floats(weight), saved.saved(),
                               {halves(back.x), floats(back.weight), floats(back.bias),
                                with_sums ? floats(back.x_sums) : nullptr},
                               floats(scratch), rows, width, current_stream());
  return back;
}

// Values that only pass through autograd's hands.
FusedGpt* pass_of(AutogradContext* context) {
  return reinterpret_cast<FusedGpt*>(context->saved_data["pass"].toInt());
}

struct Embed : torch::autograd::Function<Embed> {
  static Tensor forward(AutogradContext* context, std::int64_t pass, const Tensor& tokens,
                        const Tensor& token_table, const Tensor& position_table) {
    context->saved_data["pass"] = pass;
    context->save_for_backward({tokens});
    const auto width = token_table.size(1);
    Tensor x = new_halves(token_table, {tokens.numel(), width});
    kernels::embed(tokens.data_ptr<std::int64_t>(), floats(token_table), floats(position_table),
                   halves(x), static_cast<int>(tokens.numel()), static_cast<int>(tokens.size(1)),
                   static_cast<int>(width), current_stream());
    return x;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Tensor tokens = context->get_saved_variables()[0];
    const GptWeights& weights = pass_of(context)->weights();
    Tensor of_tokens = at::zeros_like(weights.token_table);
    Tensor of_positions = at::zeros_like(weights.position_table);
    kernels::embed_backward(tokens.data_ptr<std::int64_t>(), halves(gradients[0]),
                            floats(of_tokens), floats(of_positions),
                            static_cast<int>(tokens.numel()), static_cast<int>(tokens.size(1)),
                            static_cast<int>(weights.token_table.size(1)), current_stream());
    return {Tensor(), Tensor(), of_tokens, of_positions};
  }
};

// One block, forward and back. `x` is samples * length rows.
struct Block : torch::autograd::Function<Block> {
  static Tensor forward(AutogradContext* context, std::int64_t pass, std::int64_t layer,
                        std::int64_t length, const Tensor& x, at::TensorList) {
    FusedGpt& gpt = *reinterpret_cast<FusedGpt*>(pass);
    const GptBlock& block = gpt.block(layer);
    const std::int64_t heads = gpt.shape().heads;
    const std::int64_t width = x.size(1);
    const Normed first = gpt.norm(x, block.before_attention);
    const Attention attention(gpt.through(first.value, block.query_key_value)
                                  .view({-1, length, 3, heads, width / heads}));
    const Tensor middle = gpt.through(attention.mixed.reshape({-1, width}), block.attention_out, x);
    const Normed second = gpt.norm(middle, block.before_feed_forward);
    const Tensor before_gelu = new_halves(x, {x.size(0), block.widen.weight.size(0)});
    const Tensor wide = gpt.through(second.value, block.widen, {}, before_gelu);
    Tensor out = gpt.through(wide, block.narrow, middle);
    context->saved_data["pass"] = pass;
    context->saved_data["layer"] = layer;
    context->save_for_backward({x, first.value, first.mean, first.inverse_deviation,
                                attention.together, attention.mixed, attention.sums, attention.seed,
                                attention.offset, middle, second.value, second.mean,
                                second.inverse_deviation, before_gelu, wide});
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    FusedGpt& gpt = *pass_of(context);
    const GptBlock& block = gpt.block(context->saved_data["layer"].toInt());
    const variable_list saved = context->get_saved_variables();
    const Tensor& x = saved[0];
    const Normed first{saved[1], saved[2], saved[3]};
    const Attention attention(saved[4], saved[5], saved[6], saved[7], saved[8]);
    const Tensor& middle = saved[9];
    const Normed second{saved[10], saved[11], saved[12]};
    const Tensor& before_gelu = saved[13];
    const Tensor& wide = saved[14];
    const Tensor& out = gradients[0];
    const std::int64_t width = x.size(1);
    std::array<Tensor, block_places> of;

    of[narrow_bias] = gpt.bias_gradient(out);
    of[narrow_weight] = gpt.weight_gradient(out, wide);
    const Tensor of_gelu = gpt.back_through(out, gpt.half(block.narrow.weight), before_gelu);
    of[widen_bias] = gpt.bias_gradient(of_gelu);
    of[widen_weight] = gpt.weight_gradient(of_gelu, second.value);
    const NormBack feed_forward =
        norm_backward(gpt.back_through(of_gelu, gpt.half(block.widen.weight)), out, middle,
                      block.before_feed_forward.weight, second, /*with_sums=*/true);
    of[norm2_weight] = feed_forward.weight;
    of[norm2_bias] = feed_forward.bias;
    of[out_bias] = feed_forward.x_sums;
    of[out_weight] = gpt.weight_gradient(feed_forward.x, attention.mixed.reshape({-1, width}));
    const Tensor of_mixed = gpt.back_through(feed_forward.x, gpt.half(block.attention_out.weight));
    const auto [q, k, v] = attention.backward(of_mixed.view(attention.mixed.sizes()));
    const auto rows = static_cast<int>(x.size(0));
    const Tensor together = new_halves(x, {x.size(0), 3 * width});
    of[qkv_bias] = new_floats(x, {3 * width});
    const Tensor scratch =
        new_floats(x, {kernels::column_sum_scratch(static_cast<int>(3 * width))});
    kernels::join_three(halves(q), halves(k), halves(v), halves(together), floats(of[qkv_bias]),
                        floats(scratch), rows, static_cast<int>(width), current_stream());
    of[qkv_weight] = gpt.weight_gradient(together, first.value);
    const NormBack into =
        norm_backward(gpt.back_through(together, gpt.half(block.query_key_value.weight)),
                      feed_forward.x, x, block.before_attention.weight, first, /*with_sums=*/false);
    of[norm1_weight] = into.weight;
    of[norm1_bias] = into.bias;
    variable_list all = {Tensor(), Tensor(), Tensor(), into.x};
    all.insert(all.end(), of.begin(), of.end());
    return all;
  }
};

// The last norm, the logits and their loss. The logits' gradient is made at once, in their place;
// what the loss counts is known in backward, and multiplied there.
struct Head : torch::autograd::Function<Head> {
  static Tensor forward(AutogradContext* context, std::int64_t pass, const Tensor& x,
                        const Tensor& targets, const Tensor& norm_weight, const Tensor& norm_bias,
                        const Tensor&) {
    FusedGpt& gpt = *reinterpret_cast<FusedGpt*>(pass);
    const Normed normed = gpt.norm(x, {norm_weight, norm_bias});
    const std::int64_t padded = gpt.padded_vocabulary();
    const Tensor& table = gpt.half(gpt.weights().token_table);
    const Tensor logits = new_halves(x, {x.size(0), padded});
    gpt.multiply({.rows = x.size(0),
                  .columns = padded,
                  .depth = x.size(1),
                  .a = halves(normed.value),
                  .b = halves(table),
                  .b_is_turned = true,
                  .out = halves(logits)});
    const Tensor losses = new_floats(x, {x.size(0)});
    kernels::cross_entropy_in_place(halves(logits), targets.data_ptr<std::int64_t>(),
                                    floats(losses), static_cast<int>(x.size(0)),
                                    static_cast<int>(padded),
                                    static_cast<int>(gpt.shape().vocabulary), current_stream());
    context->saved_data["pass"] = pass;
    context->save_for_backward({x, normed.value, normed.mean, normed.inverse_deviation, logits});
    return losses.mean();
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    FusedGpt& gpt = *pass_of(context);
    const variable_list saved = context->get_saved_variables();
    const Tensor& x = saved[0];
    const Normed normed{saved[1], saved[2], saved[3]};
    const Tensor& of_logits = saved[4];
    const Tensor factor = gradients[0].to(at::kFloat).contiguous();
    const std::int64_t padded = gpt.padded_vocabulary();
    const Tensor& table = gpt.half(gpt.weights().token_table);
    const Tensor of_table = new_floats(x, {padded, x.size(1)});
    gpt.multiply({.rows = padded,
                  .columns = x.size(1),
                  .depth = x.size(0),
                  .a = halves(of_logits),
                  .b = halves(normed.value),
                  .a_is_turned = true,
                  .out = floats(of_table),
                  .out_is_float = true,
                  .factor = floats(factor)});
    const Tensor of_normed = at::empty_like(x);
    gpt.multiply({.rows = x.size(0),
                  .columns = x.size(1),
                  .depth = padded,
                  .a = halves(of_logits),
                  .b = halves(table),
                  .out = halves(of_normed),
                  .factor = floats(factor)});
    const NormBack back = norm_backward(of_normed, {}, x, gpt.weights().last_norm.weight, normed,
                                        /*with_sums=*/false);
    return {Tensor(),    back.x,    Tensor(),
            back.weight, back.bias, of_table.narrow(0, 0, gpt.shape().vocabulary)};
  }
};

Tensor FusedGpt::loss(const Tensor& tokens, const Tensor& targets) {
  copies_.refresh();
  const auto pass = reinterpret_cast<std::int64_t>(this);
  const Tensor in = tokens.contiguous();
  Tensor x = Embed::apply(pass, in, weights_.token_table, weights_.position_table);
  for (std::size_t layer = 0; layer < weights_.blocks.size(); ++layer) {
    const auto tensors = tensors_of(weights_.blocks[layer]);
    x = Block::apply(pass, static_cast<std::int64_t>(layer), in.size(1), x,
                     at::TensorList(tensors));
  }
  return Head::apply(pass, x, targets.reshape({-1}).contiguous(), weights_.last_norm.weight,
                     weights_.last_norm.bias, weights_.token_table);
}

}  // namespace

std::unique_ptr<FusedPass> make_fused_gpt(const GptWeights& weights, const ModelShape& shape) {
  const std::int64_t head_width = shape.width / shape.heads;
  const bool fits = shape.width % kernels::kVector == 0 && shape.width <= kernels::kWidestNorm &&
                    shape.vocabulary <= kernels::kLargestVocabulary - kVocabularyStep &&
                    head_width % 8 == 0 && head_width <= 128;
  // cuDNN's attention and the epilogues were measured on Hopper
  if (!fits || at::cuda::getCurrentDeviceProperties()->major < 9) return nullptr;
  return std::make_unique<FusedGpt>(weights, shape);
}

}  // namespace lockstep
