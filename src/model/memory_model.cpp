#include "model/memory_model.hpp"

#include <algorithm>

namespace lockstep {
namespace {

// seen on an H200: nvidia-smi's figure less what torch's allocator holds
constexpr double kContextBytes = 8.0e8;
constexpr double kNcclBytes = 6e8;  // a communicator's buffers: 0.3 to 1 GB
// of what comes and goes; freed pieces are given back before it ends in an error
constexpr double kSlack = 0.06;
constexpr double kStatesSlack = 0.01;  // of what stays: blocks of 2 MiB
// estimates are a few percent off, and an error ends the run
constexpr double kUsable = 0.95;
constexpr double kUnevenStages = 1.1;  // layers cannot be cut

// Over how many GPUs a part is divided.
struct Shares {
  double weights = 1;
  double gradients = 1;
  double optimizer = 1;
  double activations = 1;
};
Shares shares_of(const TrainingSetting& setting) {
  const double group = setting.group;
  switch (setting.strategy) {
    case SplitStrategy::single:
    case SplitStrategy::ddp: return {};
    case SplitStrategy::zero1: return {.optimizer = group};
    case SplitStrategy::zero2: return {.gradients = group, .optimizer = group};
    case SplitStrategy::fsdp:
    case SplitStrategy::hybrid_fsdp:
    case SplitStrategy::offload: return {group, group, group, 1};
    case SplitStrategy::hybrid_split:
    case SplitStrategy::model_split:
      return {group / kUnevenStages, group / kUnevenStages, group / kUnevenStages,
              group / kUnevenStages};
  }
  return {};
}

bool gathers(SplitStrategy strategy) {
  return strategy == SplitStrategy::fsdp || strategy == SplitStrategy::hybrid_fsdp ||
         strategy == SplitStrategy::offload;
}
bool fills_buckets(const TrainingSetting& setting) {
  const bool reduces = setting.strategy == SplitStrategy::ddp ||
                       setting.strategy == SplitStrategy::zero1 ||
                       setting.strategy == SplitStrategy::hybrid_split;
  return reduces && setting.replicas() > 1;
}

}  // namespace

MemoryParts memory_of(const Footprint& footprint, const TrainingSetting& setting,
                      std::int64_t sequence_length, const PlannedMachine& machine,
                      const Calibration& calibration) {
  const double tokens = static_cast<double>(setting.micro_batch * sequence_length);
  const Shares shares = shares_of(setting);
  const bool on_gpu = !is_virtual(machine.gpu);
  const bool offloads = setting.strategy == SplitStrategy::offload;

  MemoryParts at_start;  // of backward: everything that forward kept is there
  at_start.weights_bytes = offloads ? 0 : footprint.weights_bytes / shares.weights;
  at_start.optimizer_bytes = offloads ? 0 : footprint.optimizer_bytes / shares.optimizer;
  const double gradients = footprint.gradients_bytes / shares.gradients;
  const bool has_gradients =
      footprint.keeps_gradients || setting.accumulation > 1 || fills_buckets(setting);
  at_start.gradients_bytes = has_gradients && !offloads ? gradients : 0;
  // Gradients live in their buckets where gradient_as_bucket_view is set, as lockstep-train does;
  // the buckets that the first step builds and the second throws away are there once.
  if (fills_buckets(setting))
    at_start.buckets_bytes = !on_gpu ? 0
                             : footprint.keeps_gradients
                                 ? 2.2 * footprint.trained_parameters / shares.gradients
                                 : gradients;
  double working = footprint.fixed_bytes;
  // one ahead, and the gradients of one
  if (gathers(setting.strategy))
    working += 2 * footprint.layer_bytes + 2 * footprint.largest_unit_bytes;
  else if (setting.checkpointing == Checkpointing::none || footprint.keeps_casts)
    working += footprint.casts_bytes / shares.weights;
  const double kept = setting.checkpointing == Checkpointing::none
                          ? footprint.kept_bytes
                          : footprint.kept_when_checkpointed_bytes;
  at_start.activations_bytes =
      std::max(kept, footprint.one_layer_kept_bytes) * tokens / shares.activations;
  at_start.loss_bytes = footprint.loss_bytes * tokens;
  at_start.working_bytes = working;

  MemoryParts at_end = at_start;  // all gradients are there, and a last block
  at_end.gradients_bytes = offloads ? 2 * footprint.layer_bytes : gradients;
  at_end.activations_bytes = footprint.one_layer_kept_bytes * tokens;
  at_end.loss_bytes = 0;
  at_end.working_bytes =
      (gathers(setting.strategy)
           ? working
           : footprint.fixed_bytes +
                 (footprint.keeps_casts ? footprint.casts_bytes / shares.weights : 0)) +
      footprint.table_gradient_bytes / (gathers(setting.strategy) ? shares.gradients : 1);

  MemoryParts parts = at_start.peak_bytes() >= at_end.peak_bytes() ? at_start : at_end;
  for (double* const part : {&parts.activations_bytes, &parts.loss_bytes, &parts.working_bytes})
    *part *= calibration.memory;
  const double states =
      parts.weights_bytes + parts.gradients_bytes + parts.optimizer_bytes + parts.buckets_bytes;
  parts.slack_bytes = kStatesSlack * states + kSlack * (parts.peak_bytes() - states);
  if (on_gpu)
    parts.context_bytes =
        kContextBytes +
        (setting.gpus > 1 && setting.strategy != SplitStrategy::model_split ? kNcclBytes : 0);
  return parts;
}

double room_for_batches(double states_bytes, double total_bytes) {
  return (kUsable * total_bytes - kContextBytes - kNcclBytes - (1 + kStatesSlack) * states_bytes) /
         (1 + kSlack);
}

double usable_memory(const GpuKind& gpu) { return kUsable * gpu.memory_bytes; }

}  // namespace lockstep
