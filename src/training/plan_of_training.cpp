#include "training/plan_of_training.hpp"

#include <algorithm>

#include "plan/strategy_names.hpp"

namespace lockstep {
namespace {

constexpr std::int64_t kLargestBatch = 64;  // beyond it a GPU gains little and the loss changes

Architecture architecture_of(const TrainSettings& settings, const ModelShape& shape) {
  return {.name = settings.model,
          .family = "gpt2",
          .layers = shape.layers,
          .hidden = shape.width,
          .heads = shape.heads,
          .key_value_heads = shape.heads,
          .head_width = shape.width / shape.heads,
          .feed_forward = 4 * shape.width,
          .vocabulary = shape.vocabulary,
          .positions = shape.sequence_length,
          .longest = shape.sequence_length,
          .tied = true,
          .biases = true};
}

NumberFormat format_of(const std::string& precision) {
  return precision == "bf16"   ? NumberFormat::bf16
         : precision == "fp16" ? NumberFormat::fp16
         : precision == "tf32" ? NumberFormat::tf32
                               : NumberFormat::fp32;
}

std::vector<SplitStrategy> allowed_by(const std::string& parallel) {
  if (parallel == "single") return {SplitStrategy::single};
  if (parallel == "ddp" || parallel == "data-parallel")
    return {SplitStrategy::single, SplitStrategy::ddp};
  if (parallel == "naive") return {SplitStrategy::single, SplitStrategy::model_split};
  if (parallel == "hybrid") return {SplitStrategy::hybrid_split, SplitStrategy::model_split};
  return strategies_of_the_trainer();
}

}  // namespace

PlanRequest training_request(const TrainSettings& settings, const std::set<std::string>& given,
                             const ModelShape& shape, const TrainMachine& machine, int devices) {
  PlanRequest request;
  const bool on_gpu = settings.device == "cuda";
  const double memory = static_cast<double>(machine.memory_bytes);
  const GpuKind* const known = on_gpu ? gpu_kind_of(machine.gpu_name, memory) : &virtual_gpu_kind();
  request.machine.gpu = known != nullptr ? *known : gpu_kind_with_memory(memory);
  request.machine.gpu.memory_bytes = on_gpu ? memory : memory / devices;
  request.machine.gpus_a_node = devices;
  request.machine.cores_a_node = machine.cores;
  request.machine.link_bytes_s = reachable_link_bytes_s(request.machine.gpu);
  request.machine.hides_communication = on_gpu;
  Workload& workload = request.workload;
  workload.net = architecture_of(settings, shape);
  workload.sequence_length = shape.sequence_length;
  workload.format = format_of(settings.precision);
  workload.dropout = settings.dropout;
  const bool own_kernels = settings.fused_kernels && workload.format == NumberFormat::bf16 &&
                           settings.dropout == 0 && settings.freeze == 0;
  workload.program = !on_gpu       ? TrainingProgram::lockstep_cpu
                     : own_kernels ? TrainingProgram::lockstep_fused
                                   : TrainingProgram::lockstep_plain;
  request.allowed = allowed_by(settings.parallel);
  request.most_samples = kLargestBatch;
  if (settings.parallel == "hybrid") request.group = static_cast<int>(settings.split);
  if (settings.global_batch > 0)
    request.target_batch = settings.global_batch;
  else if (settings.tokens_per_update > 0)
    request.tokens_per_update = settings.tokens_per_update;
  // A core is busy with any batch: there the default stays.
  if (given.contains("batch-size") || (!on_gpu && !asked_batch(request)))
    request.micro_batch = settings.batch_size;
  if (given.contains("activation-checkpointing") || settings.activation_checkpointing)
    request.checkpointing = settings.activation_checkpointing;
  return request;
}

std::string parallel_of(SplitStrategy strategy) {
  switch (strategy) {
    case SplitStrategy::ddp: return "ddp";
    case SplitStrategy::model_split: return "naive";
    case SplitStrategy::hybrid_split: return "hybrid";
    default: return "single";
  }
}

}  // namespace lockstep
