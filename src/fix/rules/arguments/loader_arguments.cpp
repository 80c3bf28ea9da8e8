// Finds loaders that work between the steps instead of beside them.
//
// Why it costs: with dataloader_num_workers=0, the default, the training process itself reads,
// tokenizes and collates each batch while its GPU waits. Unpinned memory makes each copy to the GPU
// a synchronous one through a staging buffer. Workers that do not persist are started anew each
// epoch, seconds a time where datasets are large.
//
// Silent for streamed datasets without workers (a worker each reads its own copy of the stream
// unless it is split), where the settings are passed on from elsewhere, for files of settings that
// do not name it, for short runs, for methods that generate, and for scripts that are made for
// Apple's GPUs.
#include <fmt/format.h>

#include <algorithm>

#include "fix/rules/arguments/settings_rules.hpp"

namespace lockstep {
namespace {

constexpr double kManyEpochs = 10;  // below, a second or two an epoch is not worth a line

bool streams(const TrainingSettings& settings) {
  if (settings.script == nullptr) return settings.arguments.truth("streaming") == true;
  return std::ranges::any_of(settings.script->code.all, [](const CallAt& item) {
    const PythonArgument* const streaming = item.call->argument("streaming");
    return (streaming != nullptr && bool_value(streaming->value) != false) ||
           item.call->last_name().ends_with("IterableDataset") ||
           item.call->last_name() == "to_iterable_dataset";
  });
}

// Apple's GPUs have no pinned memory, and macOS starts workers by importing the script again, which
// ends a script without a main part.
bool is_for_apple(const RuleInput& input, const TrainingSettings& settings) {
  if (settings.script == nullptr) return false;
  const std::string& text = input.project.file(settings.script->code.script).text();
  return text.find("\"mps\"") != std::string::npos || text.find("'mps'") != std::string::npos ||
         text.find("backends.mps") != std::string::npos ||
         text.find("PYTORCH_MPS") != std::string::npos;
}

// A worker cannot make tensors on the GPU: CUDA does not live through a fork.
bool makes_cuda_tensors(const TrainingSettings& settings) {
  return settings.script != nullptr &&
         std::ranges::any_of(settings.script->code.all, [](const CallAt& item) {
           const std::string_view name = item.call->last_name();
           return (name == "with_format" || name == "set_format") &&
                  item.call->argument("device") != nullptr;
         });
}

// A collator that moves its batch to the GPU: neither workers nor pinned memory fit it.
bool collates_on_the_gpu(const RuleInput& input, const TrainingSettings& settings) {
  if (settings.script == nullptr) return false;
  return std::ranges::any_of(settings.script->code.trainers, [&](const CallAt& trainer) {
    const PythonArgument* const collator = trainer.call->argument("data_collator");
    if (collator == nullptr) return false;
    for (const PythonFunction& function : input.project.file(trainer.file).python()->functions())
      if (function.name == collator->value.text() && moves_to_a_device(function.node.text()))
        return true;
    return false;
  });
}

bool has_main_part(const RuleInput& input, const TrainingSettings& settings) {
  return settings.script == nullptr ||
         input.project.file(settings.script->code.script).text().find("__main__") !=
             std::string::npos;
}

constexpr double kTooFewStepsForWorkers = 200;  // over before workers pay for their start

void check_loader_arguments(const RuleInput& input, const TrainingSettings& settings,
                            std::vector<CodeFinding>& findings) {
  const ArgumentSet& arguments = settings.arguments;
  if (arguments.truth("use_cpu") == true || arguments.truth("no_cuda") == true ||
      input.project.file(settings.file).path().filename().string().find("cpu") != std::string::npos)
    return;
  // Prompts are strings: nothing to make and nothing to copy. And a comment that says CPU means it.
  const std::string_view call = arguments.span().text();
  if (arguments.has("num_generations") || call.find("# CPU") != std::string_view::npos ||
      call.find("on CPU") != std::string_view::npos)
    return;
  if (const auto steps = arguments.number("max_steps");
      steps && *steps > 0 && *steps <= kTooFewStepsForWorkers)
    return;
  const bool for_apple = is_for_apple(input, settings);
  if ((for_apple && !has_main_part(input, settings)) || makes_cuda_tensors(settings) ||
      collates_on_the_gpu(input, settings))
    return;
  const Setting* const workers = arguments.find("dataloader_num_workers");
  // Unset is 0 where Trainer's default counts: in a call that is seen whole, and not where
  // generating takes the time.
  const bool by_default = workers == nullptr && settings.arguments.carrier() == Carrier::python &&
                          !generates(settings.owner);
  const bool none = workers != nullptr ? workers->number == 0 : by_default;
  const double epochs = arguments.number("num_train_epochs").value_or(0);
  const bool restarts =
      arguments.truth("dataloader_persistent_workers") == false
          ? epochs > 1
          : !arguments.has("dataloader_persistent_workers") && epochs >= kManyEpochs;
  const bool persists =
      restarts && is_taken(input.project, settings.file, "dataloader_persistent_workers");
  // Workers that are only now asked for should stay, too; and none can stay where there are none.
  const std::string together =
      none && persists ? fmt::format("workers of {}:{}", settings.file, arguments.span().from())
                       : "";
  const bool prefetches = arguments.number("dataloader_prefetch_factor").has_value();
  if (none && (!streams(settings) || prefetches))
    propose(input, settings,
            {.code = FindingCode::loader_without_workers,
             .severity = prefetches ? Severity::critical : Severity::warning,
             .safety = is_explained(input, settings, "dataloader_num_workers") ? FixSafety::manual
                                                                               : FixSafety::unsafe,
             .name = "dataloader_num_workers",
             .value = "4",
             .reason = prefetches ? "dataloader_prefetch_factor without workers: TrainingArguments "
                                    "ends with a ValueError"
                       : workers != nullptr
                           ? "dataloader_num_workers=0: the training process makes each batch "
                             "itself, and its GPU waits meanwhile"
                           : "dataloader_num_workers is not set and 0 by default: the training "
                             "process makes each batch itself, and its GPU waits meanwhile",
             .description = "let 4 workers per rank make the batches ahead",
             .effect = "batches are ready when the step is; nothing is gained where the batch is "
                       "made in less time than a step takes",
             .changes = "random transforms draw from each worker's own generator; 4 more processes "
                        "a rank, with their memory",
             .group = together},
            findings);
  if (arguments.truth("dataloader_pin_memory") == false && !for_apple)
    propose(input, settings,
            {.code = FindingCode::pageable_copies,
             .safety = is_explained(input, settings, "dataloader_pin_memory") ? FixSafety::manual
                                                                              : FixSafety::unsafe,
             .name = "dataloader_pin_memory",
             .value = "True",
             .reason = "dataloader_pin_memory=False: every copy to the GPU goes through a staging "
                       "buffer and makes the host wait",
             .description = "keep batches in pinned memory, as is the default",
             .effect = "copies overlap with the work of the GPU",
             .changes = "some host memory is locked; the numbers are the same"},
            findings);
  const bool has_workers = workers != nullptr && workers->number.value_or(0) > 0;
  if (persists && (has_workers || (none && !streams(settings))))
    propose(
        input, settings,
        {.code = FindingCode::workers_restarted_each_epoch,
         .severity = Severity::info,
         .name = "dataloader_persistent_workers",
         .value = "True",
         .reason = has_workers ? "the loader's workers end with each epoch and are started anew"
                               : "workers, once there are some, would end with each epoch and be "
                                 "started anew",
         .description = "keep the workers from epoch to epoch",
         .effect = "no pause at the start of each epoch",
         .changes = "the workers keep their memory between epochs; the numbers are the same",
         .group = together},
        findings);
}

}  // namespace

void loader_of_script(const RuleInput& input, const ScriptFacts& script,
                      std::vector<CodeFinding>& findings) {
  for_settings_of(input, script, findings, check_loader_arguments);
}
void loader_of_file(const RuleInput& input, FileId file, std::vector<CodeFinding>& findings) {
  for_settings_in(input, file, findings, check_loader_arguments);
}

}  // namespace lockstep
