// Accelerate's configuration file, with the fields that its own `accelerate config` writes.
#include <fmt/format.h>

#include "plan/emit/parts.hpp"

namespace lockstep {
namespace {

std::string fsdp_part(const PlannedWay& way) {
  std::string text = "fsdp_config:\n";
  text += "  fsdp_activation_checkpointing: " +
          std::string(way.activation_checkpointing ? "true" : "false") + "\n";
  text += "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n";
  text += "  fsdp_cpu_ram_efficient_loading: true\n";
  text +=
      "  fsdp_offload_params: " + std::string(way.strategy == "offload" ? "true" : "false") + "\n";
  text += "  fsdp_reshard_after_forward: true\n";
  text += "  fsdp_state_dict_type: SHARDED_STATE_DICT\n";
  text += "  fsdp_version: 2\n";
  return text;
}

std::string zero_part(const PlannedWay& way) {
  return fmt::format(
      "deepspeed_config:\n  gradient_accumulation_steps: {}\n  gradient_clipping: 1.0\n  "
      "offload_optimizer_device: none\n  offload_param_device: none\n  zero3_init_flag: false\n  "
      "zero_stage: {}\n",
      way.accumulation, way.strategy == "zero1" ? 1 : 2);
}

}  // namespace

Result<Emitted> emit_accelerate(const EmitInput& input) {
  const Plan& plan = input.plan;
  const PlannedWay& way = plan.choice;
  if (way.strategy == "hybrid-split")
    return usage_error(
        "--emit accelerate: Accelerate trains no model that lies over several GPUs in one of "
        "several processes",
        "use --emit torchrun and place the layers in the script, or --strategy fsdp");
  const bool one = is_one_process(way);
  std::string text = "compute_environment: LOCAL_MACHINE\ndebug: false\n";
  if (is_zero(way)) text += zero_part(way);
  text += fmt::format("distributed_type: {}\n", one               ? "\"NO\""
                                                : is_sharded(way) ? "FSDP"
                                                : is_zero(way)    ? "DEEPSPEED"
                                                                  : "MULTI_GPU");
  text += "downcast_bf16: \"no\"\nenable_cpu_affinity: false\n";
  if (is_sharded(way)) text += fsdp_part(way);
  text += fmt::format(
      "gpu_ids: all\nmachine_rank: 0\nmain_training_function: main\nmixed_precision: {}\n",
      plan.model.precision == "bf16" || plan.model.precision == "fp16" ? plan.model.precision
                                                                       : "\"no\"");
  text += fmt::format(
      "num_machines: {}\nnum_processes: {}\nrdzv_backend: {}\nsame_network: true\ntpu_env: "
      "[]\ntpu_use_cluster: false\ntpu_use_sudo: false\nuse_cpu: false\n",
      way.nodes, one ? 1 : processes_a_node(way) * way.nodes, way.nodes > 1 ? "c10d" : "static");
  if (way.strategy == "hybrid-fsdp")
    text += fmt::format(
        "parallelism_config:\n  parallelism_config_cp_size: 1\n  "
        "parallelism_config_dp_replicate_size: {}\n  parallelism_config_dp_shard_size: {}\n  "
        "parallelism_config_tp_size: 1\n",
        way.gpus / way.group, way.group);
  Emitted emitted{text,
                  {"start: accelerate launch --config_file FILE " + script_words(input),
                   "Accelerator(gradient_accumulation_steps=" + std::to_string(way.accumulation) +
                       ") in the script"}};
  if (way.nodes > 1)
    emitted.notes.emplace_back(
        "on node N: --machine_rank N --main_process_ip HEAD --main_process_port 29500");
  for (std::string& note : notes_of(plan)) emitted.notes.push_back(std::move(note));
  return emitted;
}

}  // namespace lockstep
