#include "plan/strategy_names.hpp"

#include <array>

namespace lockstep {
namespace {

constexpr std::array kNames = {
    StrategyName{SplitStrategy::single, "single", "one GPU"},
    StrategyName{SplitStrategy::ddp, "ddp", "DDP: a copy of the model on every GPU"},
    StrategyName{SplitStrategy::zero1, "zero1", "ZeRO-1: DDP with the optimizer's states divided"},
    StrategyName{SplitStrategy::zero2, "zero2", "ZeRO-2: gradients and optimizer states divided"},
    StrategyName{SplitStrategy::fsdp, "fsdp",
                 "FSDP: weights, gradients and optimizer states divided"},
    StrategyName{SplitStrategy::hybrid_fsdp, "hybrid-fsdp", "FSDP within each node, DDP across"},
    StrategyName{SplitStrategy::hybrid_split, "hybrid-split",
                 "the model over a few GPUs, DDP across these groups"},
    StrategyName{SplitStrategy::offload, "offload",
                 "FSDP with everything that rests in the host's memory"},
    StrategyName{SplitStrategy::model_split, "model-split",
                 "the model over all GPUs, one at work at a time"},
};

const StrategyName& row_of(SplitStrategy strategy) {
  for (const StrategyName& row : kNames)
    if (row.strategy == strategy) return row;
  return kNames.front();
}

}  // namespace

std::span<const StrategyName> strategy_names() { return kNames; }
std::string_view name_of(SplitStrategy strategy) { return row_of(strategy).name; }
std::string_view words_of(SplitStrategy strategy) { return row_of(strategy).words; }

std::optional<SplitStrategy> strategy_named(std::string_view name) {
  for (const StrategyName& row : kNames)
    if (row.name == name) return row.strategy;
  return std::nullopt;
}

std::vector<SplitStrategy> strategies_of_the_trainer() {
  return {SplitStrategy::single, SplitStrategy::ddp, SplitStrategy::hybrid_split,
          SplitStrategy::model_split};
}

std::string_view name_of(NumberFormat format) {
  switch (format) {
    case NumberFormat::fp32: return "fp32";
    case NumberFormat::tf32: return "tf32";
    case NumberFormat::bf16: return "bf16";
    case NumberFormat::fp16: return "fp16";
  }
  return "";
}

std::string_view name_of(TrainingMethod method) {
  switch (method) {
    case TrainingMethod::full: return "full";
    case TrainingMethod::lora: return "lora";
    case TrainingMethod::qlora: return "qlora";
  }
  return "";
}

}  // namespace lockstep
