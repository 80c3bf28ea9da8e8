#include "training/model_shapes.hpp"

#include <fmt/format.h>

#include <array>

namespace lockstep {
namespace {

struct NamedShape {
  std::string_view name;
  ModelShape shape;
};

// GPT-2's own sizes; the vocabulary is padded to a multiple of 128 (50257 to 50304), which matrix
// units like better. tiny and small read bytes: 256 tokens.
constexpr std::array kShapes = {
    NamedShape{"tiny", {ModelKind::gpt, 4, 4, 128, 128, 256}},
    NamedShape{"small", {ModelKind::gpt, 6, 6, 384, 256, 256}},
    NamedShape{"gpt2", {ModelKind::gpt, 12, 12, 768, 1024, 50304}},
    NamedShape{"gpt2-124M", {ModelKind::gpt, 12, 12, 768, 1024, 50304}},
    NamedShape{"gpt2-medium", {ModelKind::gpt, 24, 16, 1024, 1024, 50304}},
    NamedShape{"gpt2-large", {ModelKind::gpt, 36, 20, 1280, 1024, 50304}},
    NamedShape{"gpt2-xl", {ModelKind::gpt, 48, 25, 1600, 1024, 50304}},
    NamedShape{"mlp", {ModelKind::mlp, 3, 1, 256, 1, 128}},
};

}  // namespace

Result<ModelShape> shape_of(const TrainSettings& settings) {
  ModelShape shape;
  for (const NamedShape& named : kShapes)
    if (named.name == settings.model) shape = named.shape;
  const bool is_mlp = shape.kind == ModelKind::mlp;
  if (settings.layers > 0) shape.layers = settings.layers;
  if (settings.heads > 0) shape.heads = settings.heads;
  if (settings.width > 0) shape.width = settings.width;
  if (settings.sequence_length > 0 && !is_mlp) shape.sequence_length = settings.sequence_length;
  if (settings.vocabulary > 0) shape.vocabulary = settings.vocabulary;
  if (!is_mlp && shape.width % shape.heads != 0)
    return usage_error(
        fmt::format("width {} cannot be shared among {} heads", shape.width, shape.heads),
        fmt::format("use a width of {} or {}", shape.width / shape.heads * shape.heads,
                    (shape.width / shape.heads + 1) * shape.heads));
  if (!is_mlp && shape.vocabulary < 2)
    return usage_error("a vocabulary of fewer than 2 tokens",
                       "use 256 for bytes, 50304 for GPT-2's tokens");
  if (settings.freeze > shape.layers)
    return usage_error(
        fmt::format("--freeze {}, but the model has {} blocks", settings.freeze, shape.layers),
        fmt::format("freeze at most {}", shape.layers));
  return shape;
}

std::int64_t parameter_count(const ModelShape& shape) {
  const std::int64_t width = shape.width;
  if (shape.kind == ModelKind::mlp) {
    std::int64_t count = shape.vocabulary * width + width;  // in
    count += (shape.layers - 1) * (width * width + width);  // between
    return count + width + 1;                               // out: one number
  }
  // qkv, projection, two feed-forward matrices, two norms
  const std::int64_t block = 12 * width * width + 13 * width;
  return shape.vocabulary * width + shape.sequence_length * width + shape.layers * block +
         2 * width;
}

double operations_per_token(const ModelShape& shape) {
  const auto parameters = static_cast<double>(parameter_count(shape));
  if (shape.kind == ModelKind::mlp) return 6 * parameters;
  // The position table multiplies nothing; the token table does, as the head.
  const double multiplied = parameters - static_cast<double>(shape.sequence_length * shape.width);
  return 6 * multiplied +
         12 * static_cast<double>(shape.layers * shape.width * shape.sequence_length);
}

}  // namespace lockstep
