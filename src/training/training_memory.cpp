#include "training/training_memory.hpp"

namespace lockstep {
namespace {

// Bytes a channel, layer and token that forward keeps, measured with saved-tensor hooks on a GPT block with flash attention
// (torch 2.11, sequences of 512 and 1024 alike).
constexpr double kKeptInHalf = 36.1;
constexpr double kKeptInSingle = 64.1;
constexpr double kKeptCheckpointed = 4;
constexpr double kLogitBytes = 12;        // a word of the vocabulary and token: saved, cast and its gradient at the peak
constexpr double kStateBytes = 16;        // a parameter: 4 weight, 4 gradient, 8 Adam
constexpr double kCastBytes = 2;          // a parameter: autocast's copy
constexpr double kGpuFixedBytes = 1.5e9;  // CUDA context and NCCL: 0.3 to 2 GB seen

}  // namespace

MemoryNeeds memory_needs(const ModelShape& shape, const MemoryOptions& options) {
  const auto parameters = static_cast<double>(parameter_count(shape));
  MemoryNeeds needs;
  needs.states_bytes = parameters * (kStateBytes + (options.half_precision ? kCastBytes : 0));
  const double kept = options.activation_checkpointing ? kKeptCheckpointed : options.half_precision ? kKeptInHalf : kKeptInSingle;
  const auto channels = static_cast<double>(shape.layers * shape.width);
  const double per_token = shape.kind == ModelKind::mlp ? 8 * channels : kept * channels + kLogitBytes * static_cast<double>(shape.vocabulary);
  needs.per_sample_bytes = per_token * static_cast<double>(shape.sequence_length);
  needs.fixed_bytes = options.on_gpu ? kGpuFixedBytes : 0;
  return needs;
}

}  // namespace lockstep
