// The JSON files: transformers' TrainingArguments, DeepSpeed's configuration, FSDP's settings.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "plan/choose_settings.hpp"
#include "plan/emit/parts.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kNoHybrid =
    "this file divides over all GPUs: FSDP 2 within nodes and DDP across is said in --emit "
    "accelerate alone";

Emitted as_file(const Json& content, const Plan& plan) {
  Emitted emitted{content.dump(2) + "\n", {}};
  emitted.notes = notes_of(plan);
  return emitted;
}

Json fsdp_settings(const PlannedWay& way) {
  std::string words = way.strategy == "zero2" ? "shard_grad_op auto_wrap" : "full_shard auto_wrap";
  if (way.strategy == "offload") words += " offload";
  return {{"fsdp", words},
          {"fsdp_config",
           {{"backward_prefetch", "backward_pre"},
            {"forward_prefetch", false},
            {"limit_all_gathers", true},
            {"use_orig_params", true},
            {"sync_module_states", true},
            {"cpu_ram_efficient_loading", true},
            {"activation_checkpointing", way.activation_checkpointing}}}};
}

Json deepspeed_settings(const Plan& plan) {
  const PlannedWay& way = plan.choice;
  const int stage = way.strategy == "zero1"   ? 1
                    : way.strategy == "zero2" ? 2
                    : is_sharded(way)         ? 3
                                              : 0;
  Json settings = {{"train_batch_size", way.global_batch},
                   {"train_micro_batch_size_per_gpu", way.micro_batch},
                   {"gradient_accumulation_steps", way.accumulation},
                   {"gradient_clipping", 1.0}};
  settings["bf16"] = {{"enabled", plan.model.precision == "bf16"}};
  if (plan.model.precision == "fp16") settings["fp16"] = {{"enabled", true}, {"loss_scale", 0}};
  settings["zero_optimization"] = {{"stage", stage}};
  Json& zero = settings["zero_optimization"];
  if (stage > 0) {
    zero["overlap_comm"] = true;
    zero["contiguous_gradients"] = true;
    zero["reduce_bucket_size"] = 200'000'000;
  }
  if (stage == 3) zero["stage3_gather_16bit_weights_on_model_save"] = true;
  if (way.strategy == "offload") {
    zero["offload_optimizer"] = {{"device", "cpu"}, {"pin_memory", true}};
    zero["offload_param"] = {{"device", "cpu"}, {"pin_memory", true}};
  }
  return settings;
}

}  // namespace

Result<Emitted> emit_training_arguments(const EmitInput& input) {
  const Plan& plan = input.plan;
  const PlannedWay& way = plan.choice;
  if (way.strategy == "hybrid-split")
    return usage_error(
        "--emit training-arguments: Trainer trains no model that lies over several GPUs in one of "
        "several processes",
        "use --emit torchrun and place the layers in the script, or --strategy fsdp");
  Json settings = {{"output_dir", "output"},
                   {"per_device_train_batch_size", way.micro_batch},
                   {"gradient_accumulation_steps", way.accumulation}};
  settings["bf16"] = plan.model.precision == "bf16";
  settings["fp16"] = plan.model.precision == "fp16";
  if (setting_of(plan, "tf32") == "on") settings["tf32"] = true;
  if (const std::string optimizer = setting_of(plan, "optimizer"); !optimizer.empty())
    settings["optim"] = optimizer;
  if (const auto workers = parse_integer(setting_of(plan, "workers")))
    settings["dataloader_num_workers"] = *workers;
  settings["dataloader_pin_memory"] = setting_of(plan, "pin_memory") == "true";
  settings["dataloader_persistent_workers"] = true;
  // FSDP has a checkpointing of its own, which knows what is gathered.
  if (way.activation_checkpointing && !is_sharded(way)) {
    settings["gradient_checkpointing"] = true;
    settings["gradient_checkpointing_kwargs"] = {{"use_reentrant", false}};
  }
  if (way.strategy == "ddp") {
    settings["ddp_find_unused_parameters"] = false;
    if (const auto bucket = parse_integer(setting_of(plan, "bucket_mb")))
      settings["ddp_bucket_cap_mb"] = *bucket;
  }
  if (is_sharded(way)) settings.update(fsdp_settings(way));
  if (is_zero(way)) settings["deepspeed"] = deepspeed_settings(plan);
  settings["logging_steps"] = 50;
  settings["save_strategy"] = "steps";
  settings["save_steps"] = 500;
  settings["save_total_limit"] = 2;
  Emitted emitted = as_file(settings, plan);
  if (way.strategy == "hybrid-fsdp") emitted.notes.emplace_back(kNoHybrid);
  emitted.notes.insert(emitted.notes.begin(),
                       "read it with HfArgumentParser(TrainingArguments).parse_json_file(FILE), or "
                       "TrainingArguments(**json.load(open(FILE)))");
  return emitted;
}

Result<Emitted> emit_deepspeed(const EmitInput& input) {
  Emitted emitted = as_file(deepspeed_settings(input.plan), input.plan);
  if (input.plan.choice.strategy == "hybrid-fsdp") emitted.notes.emplace_back(kNoHybrid);
  return emitted;
}

Result<Emitted> emit_fsdp(const EmitInput& input) {
  const PlannedWay& way = input.plan.choice;
  if (!is_sharded(way) && way.strategy != "zero2")
    return usage_error(
        fmt::format("--emit fsdp, but the plan is {}", way.strategy),
        fmt::format(
            "FSDP is not needed here; force it with --strategy fsdp, or use --emit torchrun"));
  Emitted emitted = as_file(fsdp_settings(way), input.plan);
  if (way.strategy == "hybrid-fsdp") emitted.notes.emplace_back(kNoHybrid);
  return emitted;
}

}  // namespace lockstep
