// Finds training that leaves the tensor cores or the fused optimizer unused. Shown, never applied:
// precision and optimizer change the numbers, and which of them a GPU can do is not in the code.
//
// Why it costs: fp32 matrix products run on the plain cores, at an eighth (A100: 19.5 against 156
// TFLOP/s in TF32, 312 in bf16; NVIDIA's data sheet) of what the tensor cores give. An unfused
// AdamW reads and writes every parameter in a dozen kernels where one does.
#include <algorithm>

#include "fix/rules/arguments/settings_rules.hpp"

namespace lockstep {
namespace {

bool chooses_precision(const TrainingSettings& settings) {
  for (const char* name : {"bf16", "fp16", "tf32", "bf16_full_eval", "half_precision_backend",
                           "fp16_backend", "deepspeed"})
    if (settings.arguments.has(name)) return true;
  // Also elsewhere: the weights' own type, autocast, a global switch, quantised weights.
  return settings.script == nullptr ||
         std::ranges::any_of(settings.script->code.all, [](const CallAt& item) {
           return item.call->argument("torch_dtype") != nullptr ||
                  item.call->argument("dtype") != nullptr ||
                  item.call->argument("quantization_config") != nullptr ||
                  item.call->argument("load_in_8bit") != nullptr ||
                  item.call->argument("load_in_4bit") != nullptr ||
                  item.call->last_name() == "autocast" ||
                  item.call->last_name() == "set_float32_matmul_precision" ||
                  item.call->last_name() == "half" || item.call->last_name() == "bfloat16";
         });
}

void check_precision_arguments(const RuleInput& input, const TrainingSettings& settings,
                               std::vector<CodeFinding>& findings) {
  const ArgumentSet& arguments = settings.arguments;
  if (arguments.is_open() || arguments.truth("use_cpu") == true ||
      arguments.truth("no_cuda") == true)
    return;
  if (settings.kind == SettingsKind::training_arguments && !chooses_precision(settings))
    propose(
        input, settings,
        {.code = FindingCode::tensor_cores_unused,
         .severity = Severity::info,
         .safety = FixSafety::manual,
         .name = "bf16",
         .value = "True",
         .reason =
             "no precision is chosen, so all matrix products run in fp32 beside the tensor cores",
         .description =
             "train in bf16 on Ampere and newer (tf32=True changes less; fp16=True for older GPUs)",
         .effect = "matrix products several times faster, activations half as large",
         .changes = "the loss curve within bf16's rounding"},
        findings);
  if (arguments.truth("bf16") == true && arguments.truth("fp16") == true) {
    CodeFinding finding;
    finding.code = FindingCode::unknown_training_argument;
    finding.reason =
        "bf16=True and fp16=True at once: TrainingArguments ends with \"At most one of fp16 and "
        "bf16 can be True\"";
    finding.where = {place_in(settings, "fp16")};
    Way way;
    way.kind = FixKind::advice;
    way.description = "keep bf16 on Ampere and newer, fp16 before";
    finding.ways.push_back(std::move(way));
    findings.push_back(std::move(finding));
  }
  if (const auto optimizer = arguments.word("optim");
      optimizer == "adamw_torch" || optimizer == "adamw_hf")
    propose(input, settings,
            {.code = FindingCode::unfused_optimizer,
             .severity = Severity::info,
             .safety = FixSafety::manual,
             .name = "optim",
             .value = "\"adamw_torch_fused\"",
             .reason =
                 "optim=\"" + *optimizer + "\" updates the parameters in many small kernels" +
                 (*optimizer == "adamw_hf" ? ", and Transformers 5 no longer takes the name" : ""),
             .description = "one fused kernel for the update",
             .effect = "a shorter optimizer step, most of all for small models",
             .changes = "the loss within rounding"},
            findings);
}

}  // namespace

void precision_of_script(const RuleInput& input, const ScriptFacts& script,
                         std::vector<CodeFinding>& findings) {
  for_settings_of(input, script, findings, check_precision_arguments);
}

}  // namespace lockstep
