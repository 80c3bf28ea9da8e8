// The nets by name, and what they weigh: parameters, operations a token.
#pragma once

#include <cstdint>
#include <string_view>

#include "lockstep/result.hpp"
#include "training/train_settings.hpp"

namespace lockstep {

enum class ModelKind : std::uint8_t { gpt, mlp };

struct ModelShape {
  ModelKind kind = ModelKind::gpt;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t width = 0;
  std::int64_t sequence_length = 0;  // 1 for rows
  std::int64_t vocabulary = 0;       // columns of a row for mlp

  bool operator==(const ModelShape&) const = default;
};

// The named net with what the user put in place of its own numbers.
Result<ModelShape> shape_of(const TrainSettings& settings);

std::int64_t parameter_count(const ModelShape& shape);

// Forward and backward of one token: 6 operations a parameter that multiplies it, 12 a channel,
// layer and position of attention (facts: nanoGPT's and PaLM's count).
double operations_per_token(const ModelShape& shape);

}  // namespace lockstep
