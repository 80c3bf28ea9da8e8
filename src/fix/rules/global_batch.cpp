#include "fix/rules/global_batch.hpp"

#include <fmt/format.h>

#include <cmath>

#include "fix/settings/argument_set.hpp"

namespace lockstep {
namespace {

bool has_split_model(const TrainingCode& code) {
  for (const std::size_t load : code.trained_loads)
    if (code.loads[load].call->argument("device_map") != nullptr) return true;
  return false;
}

// Trainer under nn.DataParallel already multiplies the batch by the GPUs; a split model and Accelerate do not.
bool batch_grows(const TrainingCode& code) { return !code.trains_with_trainer || has_split_model(code); }

}  // namespace

std::optional<int> processes_to_be(const RuleInput& input, const ScriptFacts& script) {
  for (const Launch& launch : script.launches) {
    if (launch.launcher != Launcher::python) continue;
    if (const auto count = visible_gpus(input.project, launch).count; count && *count > 1) return count;
  }
  return input.wishes.gpus;
}

std::string batch_words(const ScriptFacts& script, std::optional<int> processes) {
  const std::string times = processes ? std::to_string(*processes) : "N";
  if (!batch_grows(script.code))
    return "the global batch stays what nn.DataParallel made it (per_device_train_batch_size x GPUs); each rank draws its own data order";
  return fmt::format(
      "the global batch becomes {} times larger{}, with {} times fewer steps an epoch: scale the learning rate (linear with warm-up for SGD, by the square root for Adam), or keep the batch: --global-batch keep",
      times, processes ? "" : " (N GPUs)", times);
}

std::optional<Way> same_global_batch(const Project& project, const ScriptFacts& script, std::optional<int> processes) {
  if (!batch_grows(script.code)) return std::nullopt;
  Way way;
  way.safety = FixSafety::manual;
  way.effect = "all GPUs work at once, with the global batch as it was";
  if (!processes || script.code.arguments.size() != 1) {
    way.description = "or keep the global batch: divide gradient_accumulation_steps (or the batch) by the number of GPUs";
    return way;
  }
  const CallAt& call = script.code.arguments.front();
  const ArgumentSet arguments = ArgumentSet::of_call(*call.call);
  const std::string& text = project.file(call.file).text();
  for (const char* name : {"gradient_accumulation_steps", "per_device_train_batch_size"}) {
    const auto value = arguments.number(name);
    if (!value || *value < *processes || std::fmod(*value, *processes) != 0) continue;
    way.safety = FixSafety::unsafe;
    way.description = fmt::format("or keep the global batch: {} {:.0f} becomes {:.0f}", name, *value, *value / *processes);
    way.changes = "the order of the data: each rank draws its own share";
    way.files.push_back({call.file, arguments.set(text, name, fmt::format("{:.0f}", *value / *processes))});
    return way;
  }
  way.description = fmt::format("or keep the global batch: neither gradient_accumulation_steps nor per_device_train_batch_size is a number that {} divides (X704); choose one that is", *processes);
  return way;
}

}  // namespace lockstep
