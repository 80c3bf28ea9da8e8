#include "fix/rules/arguments/global_batch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.hpp"
#include "fix/facts/launch_path.hpp"
#include "fix/rules/launching/rank_hazards.hpp"
#include "fix/settings/argument_set.hpp"

namespace lockstep {
namespace {

// Trainer under nn.DataParallel already multiplies the batch by the GPUs; a split model and
// Accelerate do not.
bool batch_grows(const Project& project, const TrainingCode& code) {
  // With a model that says that it is parallel Trainer counts one GPU, and wraps nothing.
  return !code.trains_with_trainer || trains_a_split_model(project, code) ||
         project.file(code.script).text().find("is_parallelizable") != std::string::npos;
}

// per_device_train_batch_size x accumulation x processes, on the path that this way to start takes.
std::optional<double> global_batch(const Project& project, const ScriptFacts& script,
                                   std::optional<int> ranks, int gpus) {
  if (script.code.arguments.size() != 1) return std::nullopt;
  const CallAt& call = script.code.arguments.front();
  if (ArgumentSet::of_call(*call.call).is_open()) return std::nullopt;
  const auto plain = std::ranges::find(script.launches, Launcher::python, &Launch::launcher);
  const PathEvaluation path(
      *project.file(call.file).python(),
      {ranks, gpus,
       plain != script.launches.end() ? plain->arguments() : std::vector<std::string>()});
  double batch = ranks.value_or(1);
  for (const auto& [name, default_value] :
       {std::pair("per_device_train_batch_size", 8.0), {"gradient_accumulation_steps", 1.0}}) {
    const PythonArgument* const given = call.call->argument(name);
    const auto value =
        given == nullptr ? std::optional(default_value) : number_of(path.value(given->value));
    if (!value || *value <= 0) return std::nullopt;
    batch *= *value;
  }
  return batch;
}

// What the script makes of its batch by itself, before and after.
std::string words_of_own_branch(const Project& project, const ScriptFacts& script,
                                const OwnBranch& branch, std::optional<int> processes) {
  const std::string where = place_words(project, branch.place);
  const auto before = [&](int gpus) {
    auto batch = global_batch(project, script, std::nullopt, gpus);
    if (batch && !batch_grows(project, script.code)) *batch *= gpus;  // nn.DataParallel's
    return batch;
  };
  const int few = processes.value_or(2);
  const int more = processes.value_or(4);
  const auto was_few = before(few);
  const auto was_more = before(more);
  const auto is_few = global_batch(project, script, few, few);
  const auto is_more = global_batch(project, script, more, more);
  if (!was_few || !was_more || !is_few || !is_more)
    return fmt::format(
        "the script sets {} ({}) by whether there are several processes: what the global batch "
        "becomes is not known from its text, compute it before you compare; each rank draws "
        "its own data order",
        branch.name, where);
  const auto numbers = [&](double on_few, double on_more) {
    return on_few == on_more
               ? fmt::format("{:.0f}", on_few)
               : fmt::format("{:.0f} on {} GPUs, {:.0f} on {}", on_few, few, on_more, more);
  };
  if (*was_few == *is_few && *was_more == *is_more)
    return fmt::format(
        "the script divides {} by its ranks itself ({}): the global batch stays {}; each rank "
        "draws its own data order",
        branch.name, where, numbers(*is_few, *is_more));
  return fmt::format(
      "the global batch changes from {} to {}: the script sets {} ({}) by whether there are "
      "several processes; scale the learning rate, or divide it so that the batch stays",
      numbers(*was_few, *was_more), numbers(*is_few, *is_more), branch.name, where);
}

// All plain lines of the script see as many GPUs, or it is not known.
bool counts_agree(const Project& project, const ScriptFacts& script, int processes) {
  return std::ranges::all_of(script.launches, [&](const Launch& launch) {
    return launch.launcher != Launcher::python ||
           visible_gpus(project, launch).count.value_or(processes) == processes;
  });
}

}  // namespace

bool trains_a_split_model(const Project& project, const TrainingCode& code) {
  return std::ranges::any_of(code.trained_loads, [&](std::size_t load) {
    return has_map(code.loads[load]) || split_map(project, code.loads[load]).has_value();
  });
}

std::optional<int> processes_to_be(const RuleInput& input, const ScriptFacts& script) {
  for (const Launch& launch : script.launches) {
    if (launch.launcher != Launcher::python) continue;
    if (const auto count = visible_gpus(input.project, launch).count; count && *count > 1)
      return count;
  }
  return input.wishes.gpus;
}

std::optional<OwnBranch> own_batch_branch(const Project& project, const ScriptFacts& script) {
  const FileId file = script.code.script;
  const PythonModule& module = *project.file(file).python();
  for (std::uint32_t index = 0; index < module.tree().size(); ++index) {
    const Node node = module.tree().at(index);
    if (!node.is("assignment") && !node.is("augmented_assignment")) continue;
    const std::string_view target = node.field("left").text();
    if (target.find("accumulation") == std::string_view::npos &&
        target.find("batch_size") == std::string_view::npos)
      continue;
    const std::string_view condition = node.enclosing("if_statement").field("condition").text();
    if (condition.find("ddp") == std::string_view::npos &&
        condition.find("world_size") == std::string_view::npos &&
        condition.find("WORLD_SIZE") == std::string_view::npos)
      continue;
    return OwnBranch{std::string(target), place_of(file, node)};
  }
  return std::nullopt;
}

std::string own_branch_fails(const Project& project, const ScriptFacts& script,
                             const Launch& launch, std::optional<int> processes) {
  // alpaca-lora's way: accumulation = batch_size // micro_batch_size, then // world_size.
  const auto words = launch.arguments();
  const PythonModule& module = *project.file(script.code.script).python();
  const auto number = [&](const std::string& name) -> std::optional<double> {
    if (const auto given = option_among(words, {"--" + name})) {
      const auto value = parse_integer(trim(*given));
      return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
    }
    for (const PythonFunction& function : module.functions())
      for (const char* kind : {"typed_default_parameter", "default_parameter"})
        for (const Node& parameter : function.node.field("parameters").descendants(kind))
          if (parameter.field("name").text() == name) return number_value(parameter.field("value"));
    return std::nullopt;
  };
  const auto whole = number("batch_size");
  const auto micro = number("micro_batch_size");
  if (!whole || !micro || *micro <= 0) return "";
  const double accumulation = std::floor(*whole / *micro);
  const double ranks = processes ? *processes : 2;
  if (accumulation >= ranks && std::fmod(accumulation, ranks) == 0) return "";
  return fmt::format(
      "batch_size {:.0f} over micro_batch_size {:.0f} leaves {:.0f} to divide by the ranks: give "
      "numbers that they divide",
      *whole, *micro, accumulation);
}

std::string batch_words(const RuleInput& input, const ScriptFacts& script,
                        std::optional<int> processes) {
  if (const auto branch = own_batch_branch(input.project, script))
    return words_of_own_branch(input.project, script, *branch, processes);
  if (script.is_launched_distributed() && trains_a_split_model(input.project, script.code))
    return "where the layers lie; the batch and the order of the data are as before";
  if (script.is_launched_distributed())
    return "what the script's other lines, which start several processes, already do: the batch is "
           "per_device_train_batch_size x accumulation x the processes";
  if (shards_by_arguments(script.code))
    return "the global batch is per_device_train_batch_size x accumulation x the processes; each "
           "rank draws its "
           "own data order";
  if (!batch_grows(input.project, script.code))
    return "the global batch stays what nn.DataParallel made it (per_device_train_batch_size x "
           "GPUs); each rank draws its own data order";
  const std::string times = processes ? std::to_string(*processes) : "N";
  const bool fixed_steps = std::ranges::any_of(script.code.arguments, [](const CallAt& item) {
    const PythonArgument* const steps = item.call->argument("max_steps");
    return steps != nullptr && number_value(steps->value).value_or(0) > 0;
  });
  if (fixed_steps)
    return fmt::format(
        "the global batch becomes {} times larger{} and max_steps stays: as long a run over {} "
        "times the data; divide max_steps to see the same data sooner",
        times, processes ? "" : " (N GPUs)", times);
  return fmt::format(
      "the global batch becomes {} times larger{}, with {} times fewer steps an epoch: scale the "
      "learning rate (linear with warm-up for SGD, by the square root for Adam){}",
      times, processes ? "" : " (N GPUs)", times,
      input.wishes.batch == GlobalBatch::keep ? "" : ", or keep the batch: --global-batch keep");
}

std::optional<Way> same_global_batch(const RuleInput& input, const ScriptFacts& script,
                                     std::optional<int> processes) {
  if (shards_by_arguments(script.code) || !batch_grows(input.project, script.code) ||
      own_batch_branch(input.project, script))
    return std::nullopt;
  Way way;
  way.kind = FixKind::advice;
  way.effect = "all GPUs work at once, with the global batch as it was";
  if (!processes || script.code.arguments.size() != 1 ||
      !counts_agree(input.project, script, *processes)) {
    way.description =
        "keep the global batch: divide gradient_accumulation_steps (or the batch) by the number of "
        "GPUs";
    if (!processes) way.description += "; --gpus N says how many there are";
    return way;
  }
  const CallAt& call = script.code.arguments.front();
  const ArgumentSet arguments = ArgumentSet::of_call(*call.call);
  const std::string& text = input.project.file(call.file).text();
  for (const char* name : {"gradient_accumulation_steps", "per_device_train_batch_size"}) {
    const auto value = arguments.number(name);
    if (!value || *value < *processes || std::fmod(*value, *processes) != 0) continue;
    way.kind = FixKind::edit;
    way.safety = FixSafety::unsafe;
    way.description = fmt::format("keep the global batch: {} {:.0f} becomes {:.0f}", name, *value,
                                  *value / *processes);
    way.changes = "the order of the data: each rank draws its own share";
    way.files.push_back(
        {call.file, arguments.set(text, name, fmt::format("{:.0f}", *value / *processes))});
    return way;
  }
  way.description = fmt::format(
      "keep the global batch: neither gradient_accumulation_steps nor per_device_train_batch_size "
      "is written as a number that {} divides (X704); choose one that is",
      *processes);
  return way;
}

Companion companion_of(const RuleInput& input, const ScriptFacts& script) {
  const TrainingCode& code = script.code;
  const std::string& text = input.project.file(code.script).text();
  const auto calls = [&](std::initializer_list<std::string_view> names) {
    return std::ranges::any_of(code.all, [&](const CallAt& item) {
      return std::ranges::find(names, item.call->last_name()) != names.end();
    });
  };
  const bool adapters = calls({"get_peft_model", "LoraConfig", "prepare_model_for_kbit_training",
                               "prepare_model_for_int8_training", "get_peft_config"});
  const bool checkpoints =
      calls({"prepare_model_for_kbit_training", "prepare_model_for_int8_training",
             "gradient_checkpointing_enable"}) ||
      text.find("gradient_checkpointing") != std::string::npos;
  // prepare_model_for_kbit_training switches checkpointing on again, reentrant, unless it is told
  // otherwise itself.
  const bool told = std::ranges::none_of(code.all, [](const CallAt& item) {
    return item.call->last_name() == "prepare_model_for_kbit_training" &&
           item.call->argument("gradient_checkpointing_kwargs") == nullptr &&
           item.call->argument("use_gradient_checkpointing") == nullptr;
  });
  const bool settled = (told && text.find("use_reentrant") != std::string::npos) ||
                       text.find("ddp_find_unused_parameters") != std::string::npos;
  const Versions& versions = input.project.versions_for(code.script);
  const auto known = versions.find("transformers");
  // not reentrant by default
  const bool newer = known != versions.end() && !known->second.unknown &&
                     !(known->second.version < *Version::parse("5.0"));
  Companion companion;
  // What every rank would do for itself.
  for (const CallAt& item : code.all) {
    if (item.call->callee == "input") {
      companion.possible = false;
      companion.words =
          fmt::format("every rank would ask its question ({})",
                      place_words(input.project, place_of(item.file, item.call->node)));
      return companion;
    }
    const bool splits = item.call->last_name() == "train_test_split" &&
                        item.call->argument("seed") == nullptr &&
                        item.call->argument("random_state") == nullptr && item.file == code.script;
    if (splits && !calls({"set_seed", "seed_everything", "manual_seed"}))
      companion.words =
          fmt::format("each rank would draw its own split ({}): give it a seed",
                      place_words(input.project, place_of(item.file, item.call->node)));
  }
  if (text.find("wandb.run.name") != std::string::npos ||
      text.find("wandb.run.id") != std::string::npos) {
    companion.possible = false;
    companion.words =
        "each rank would open a W&B run of its own, and the script names folders after it";
    return companion;
  }
  const bool sharded = shards_by_arguments(code) || is_sharded_by_launch(input.project, script);
  if (sharded || !code.trains_with_trainer || !adapters || !checkpoints || settled || newer)
    return companion;
  companion.words += companion.words.empty() ? "" : "; ";
  companion.words +=
      "adapters under gradient checkpointing need ddp_find_unused_parameters=False, or DDP ends "
      "with \"Expected to mark a variable ready only once\"";
  companion.possible = false;
  if (code.arguments.size() != 1) return companion;
  const ArgumentSet arguments = ArgumentSet::of_call(*code.arguments.front().call);
  auto edits = arguments.is_open()
                   ? std::vector<Edit>()
                   : arguments.set(input.project.file(code.arguments.front().file).text(),
                                   "ddp_find_unused_parameters", "False");
  if (edits.empty()) return companion;
  companion.change = Change{code.arguments.front().file, std::move(edits)};
  companion.possible = true;
  return companion;
}

}  // namespace lockstep
