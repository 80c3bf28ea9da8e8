#include "model/footprint.hpp"

#include <algorithm>
#include <string_view>

namespace lockstep {
namespace {

// Fitted to one H200, GPT-2 of 124M to 1.5B, 1024 tokens a sample, batches of 1 to 64
// (`scripts/bench plan` prints how well): torch 2.11 eager and compiled, and lockstep-train in its
// own kernels and by ATen.
struct ProgramCosts {
  // bytes of half-precision forward for a channel, layer and token of GPT-2
  double kept_a_channel;
  double loss_a_word;      // bytes for a word of the vocabulary and token, at the peak
  double moved_a_channel;  // bytes that are no matrix product's, forward and backward
  double moved_a_word;
  double host_ms_a_layer;
  double gap_ms_a_layer;
  double fixed_bytes;
  bool keeps_gradients;
  bool keeps_casts;  // a half-precision copy of all weights, at all times
};
constexpr ProgramCosts costs_of(TrainingProgram program) {
  switch (program) {
    case TrainingProgram::pytorch: return {36.1, 10, 271, 38, 1.4, 0.22, 0, false, false};
    case TrainingProgram::pytorch_compiled: return {36.1, 2.2, 175, 12, 0.9, 0.1, 0, false, false};
    case TrainingProgram::lockstep_fused:
      return {32.35, 2.07, 131, 2.4, 0.62, 0.2, 2e8, true, true};
    case TrainingProgram::lockstep_plain: return {36.1, 10, 330, 38, 1.5, 0.25, 0, true, false};
    case TrainingProgram::lockstep_cpu: return {64.1, 12, 271, 38, 0, 0, 0, true, false};
  }
  return {};
}
// Measured with saved-tensor hooks on a GPT block with flash attention, sequences of 512 and 1024
// alike (torch 2.11).
constexpr double kHalfOfGpt2 = 36.1;
constexpr double kSingleOfGpt2 = 64.1;
constexpr double kMoreWithDropout = 4;
// bytes a channel: what a checkpointed block keeps, in fp32
constexpr double kResidual = 4;
// where weights are in half precision, so is the residual
constexpr double kHalfResidual = 2;
// bytes a channel and token: embeddings and the last norm
constexpr double kAtTheEnds = 6;
constexpr double kLossInSingle = 12;     // bytes a word: logits, their softmax, its gradient
constexpr double kMovedInSingle = 1.76;  // times what half precision moves
// a trained parameter: both moments and weight read and written, clipping, casts
constexpr double kUpdateBytes = 50;
constexpr double kFourBit = 0.5 * 1.06;  // bytes a weight with its scales (double quantization)

double as_real(std::int64_t number) { return static_cast<double>(number); }
double channels(const Architecture& net) { return as_real(net.layers * net.hidden); }

double optimizer_bytes_a_parameter(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::adamw: return 8;
    case OptimizerKind::adamw_8bit: return 2;
    case OptimizerKind::sgd: return 4;  // its momentum
  }
  return 8;
}

void add_net(const Workload& workload, const ProgramCosts& costs, Footprint& result) {
  const Architecture& net = workload.net;
  const double size = parameters(net);
  const bool is_full = workload.method == TrainingMethod::full;
  const bool half = is_half(workload.format);
  const double compute_bytes = half ? 2 : 4;
  result.parameters += size;
  const double tables = std::min(size, table_parameters(net));
  if (is_full) {
    result.trained_parameters += size;
    result.weights_bytes += 4 * size;
    result.casts_bytes += half ? 2 * size : 0;
    // The words' table gets a gradient as table and one as head, which are added into a third.
    result.table_gradient_bytes =
        net.tied && !costs.keeps_casts ? 8 * as_real(net.vocabulary * net.hidden) : 0;
  } else {
    result.trained_parameters += lora_parameters(net, workload.lora_rank);
    if (workload.method == TrainingMethod::qlora)
      result.unpacked_bytes = 2 * (kFourBit + 2 + 2) * (size - tables);
    result.weights_bytes += workload.method == TrainingMethod::lora
                                ? compute_bytes * size
                                : kFourBit * (size - tables) + 2 * tables;
  }
  result.layer_bytes = std::max(result.layer_bytes, compute_bytes * layer_parameters(net));
  result.largest_unit_bytes = std::max({result.largest_unit_bytes, result.layer_bytes,
                                        compute_bytes * as_real(net.vocabulary * net.hidden)});

  const double family = kept_bytes_a_channel(net) / kHalfOfGpt2;
  const double kept = (half ? costs.kept_a_channel * family : kSingleOfGpt2 * family) +
                      (workload.dropout > 0 ? kMoreWithDropout : 0);
  const double residual = is_full || !half ? kResidual : kHalfResidual;
  const double words = as_real(net.vocabulary);
  result.handed_on_bytes = compute_bytes * as_real(net.hidden);
  result.kept_bytes += kept * channels(net) + kAtTheEnds * as_real(net.hidden);
  result.kept_when_checkpointed_bytes +=
      residual * channels(net) + kAtTheEnds * as_real(net.hidden);
  result.one_layer_kept_bytes = std::max(result.one_layer_kept_bytes, kept * as_real(net.hidden));
  result.loss_bytes +=
      (half ? costs.loss_a_word : std::max(costs.loss_a_word, kLossInSingle)) * words;

  // 2 operations a weight that multiplies, 4 in backward (2 where the weight itself gets no
  // gradient); attention is counted whole though half of it is masked: its kernels reach half the
  // speed of plain products.
  const double products =
      2 * multiplied_parameters(net) + 4 * channels(net) * as_real(workload.sequence_length);
  const double attention = 4 * channels(net) * as_real(workload.sequence_length);
  result.forward_operations += products;
  result.backward_operations += is_full ? 2 * products : products + attention;
  const double wider = half ? 1.0 : kMovedInSingle;
  const double moved =
      wider * (costs.moved_a_channel * family * channels(net) + costs.moved_a_word * words);
  result.forward_moved_bytes += moved / 3;
  result.backward_moved_bytes += 2 * moved / 3;
  result.recomputed_operations += products - 2 * words * as_real(net.hidden);
  result.recomputed_moved_bytes += wider * costs.moved_a_channel * family * channels(net) / 3;
  result.layers += as_real(net.layers);
}

void add_frozen(const Workload& workload, const Architecture& net, Footprint& result) {
  const double size = parameters(net);
  result.parameters += size;
  result.weights_bytes += 2 * size;
  result.forward_only_bytes += 2 * size;
  result.layer_bytes = std::max(result.layer_bytes, 2 * layer_parameters(net));
  result.largest_unit_bytes = std::max(
      {result.largest_unit_bytes, result.layer_bytes, 2 * as_real(net.vocabulary * net.hidden)});
  result.one_layer_kept_bytes =
      std::max(result.one_layer_kept_bytes, kept_bytes_a_channel(net) * as_real(net.hidden));
  result.forward_operations +=
      2 * multiplied_parameters(net) + 4 * channels(net) * as_real(workload.sequence_length);
  result.forward_moved_bytes += costs_of(workload.program).moved_a_channel / 3 * channels(net);
  result.layers += as_real(net.layers) / 3;
}

}  // namespace

double kept_bytes_a_channel(const Architecture& net) {
  // Copies of the hidden state that ml-engineering counted, 2 bytes each: 24 in SmolLM2, 28 in
  // Llama 3.1 8B, 38 in Qwen3, 48 in gemma.
  const std::string_view family = net.family;
  if (family == "gpt2") return kHalfOfGpt2;
  if (family == "bert") return kHalfOfGpt2 + kMoreWithDropout;
  if (family == "llama") return 56;
  if (family == "smollm") return 48;
  if (family == "qwen") return 76;
  if (family == "gemma") return 96;
  return net.gated ? 56 : kHalfOfGpt2;
}

Footprint footprint_of(const Workload& workload, Checkpointing checkpointing) {
  if (checkpointing == Checkpointing::none || workload.program != TrainingProgram::lockstep_fused)
    return footprint_of(workload);
  Workload plain = workload;
  plain.program = TrainingProgram::lockstep_plain;
  return footprint_of(plain);
}

Footprint footprint_of(const Workload& workload) {
  const ProgramCosts costs = costs_of(workload.program);
  Footprint result;
  add_net(workload, costs, result);
  for (const Architecture& net : workload.frozen) add_frozen(workload, net, result);
  result.parameters += workload.extra_trained_parameters;
  result.trained_parameters += workload.extra_trained_parameters;
  result.weights_bytes += 4 * workload.extra_trained_parameters;
  if (workload.method != TrainingMethod::full)
    result.weights_bytes += 4 * lora_parameters(workload.net, workload.lora_rank);
  result.gradients_bytes = 4 * result.trained_parameters;
  result.optimizer_bytes =
      optimizer_bytes_a_parameter(workload.optimizer) * result.trained_parameters;
  result.update_moved_bytes = kUpdateBytes * result.trained_parameters;
  result.host_ms_a_layer = costs.host_ms_a_layer;
  result.gap_ms_a_layer = costs.gap_ms_a_layer;
  result.fixed_bytes =
      costs.fixed_bytes + (costs.keeps_casts ? 0.4 * result.trained_parameters : 0);
  result.keeps_gradients = costs.keeps_gradients;
  result.keeps_casts = costs.keeps_casts;
  return result;
}

}  // namespace lockstep
