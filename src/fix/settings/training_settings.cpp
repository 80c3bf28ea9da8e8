#include "fix/settings/training_settings.hpp"

#include <algorithm>

#include "fix/knowledge/argument_history.hpp"

namespace lockstep {
namespace {

constexpr std::ptrdiff_t kEnoughOfAFile = 4;
constexpr std::ptrdiff_t kEnoughOfALine = 2;  // of a script that parses them

// Enough of the names of TrainingArguments to be meant for it.
bool looks_like_arguments(const ArgumentSet& set, std::ptrdiff_t enough) {
  if (!set.has("per_device_train_batch_size") && !set.has("output_dir")) return false;
  const auto known = std::ranges::count_if(set.settings(), [](const Setting& setting) {
    return ArgumentHistory::of_transformers().knows(setting.name);
  });
  return known >= enough;
}

std::optional<TrainingSettings> recognised(FileId file, ArgumentSet set) {
  if (set.has("base_model") && set.has("micro_batch_size"))
    return TrainingSettings{
        file, SettingsKind::axolotl, "the axolotl settings", std::move(set), nullptr, true};
  if (set.has("finetuning_type") && set.has("stage"))
    return TrainingSettings{
        file, SettingsKind::llama_factory, "the LLaMA-Factory settings", std::move(set), nullptr,
        true};
  if (looks_like_arguments(set, kEnoughOfAFile))
    return TrainingSettings{
        file, SettingsKind::arguments_file, "the training arguments", std::move(set), nullptr,
        true};
  return std::nullopt;
}

}  // namespace

namespace {
// Arguments of a Trainer that has nothing to train on: it only predicts.
bool only_predict(const ScriptFacts& script, const CallAt& arguments) {
  return std::ranges::any_of(script.code.trainers, [&](const CallAt& trainer) {
    const PythonArgument* const data = trainer.call->argument("train_dataset");
    const PythonArgument* const evaluated = trainer.call->argument("eval_dataset");
    const bool no_data =
        (data != nullptr && is_none(data->value)) || (data == nullptr && evaluated != nullptr);
    return trainer.file == arguments.file && trainer.call->node.contains(arguments.call->node) &&
           no_data;
  });
}
// --do_eval without --do_train
bool only_evaluates(const ArgumentSet& options) {
  const bool evaluates = options.has("do_eval") || options.has("do_predict");
  return options.truth("do_train") == false || (evaluates && !options.has("do_train"));
}
// Set again before anyone reads it: args = SFTConfig(...) and, further down, args =
// GRPOConfig(...).
bool is_replaced(const Project& project, const ScriptFacts& script, const CallAt& arguments) {
  const auto& all = project.file(arguments.file).python()->assignments();
  const auto assigned = [&](const CallAt& item) {
    return std::ranges::find_if(
        all, [&](const PythonAssignment& each) { return each.value == item.call->node; });
  };
  const auto own = assigned(arguments);
  if (own == all.end()) return false;
  return std::ranges::any_of(script.code.arguments, [&](const CallAt& other) {
    if (other.file != arguments.file || other.call == arguments.call ||
        other.call->node.from() < arguments.call->node.from())
      return false;
    const auto later = assigned(other);
    if (later == all.end() || later->target != own->target || later->function != own->function ||
        later->statement.enclosing("if_statement") != own->statement.enclosing("if_statement"))
      return false;
    const std::string_view before =
        std::string_view(project.file(arguments.file).text()).substr(0, other.call->node.from());
    return before.substr(own->statement.to()).find("args=" + own->target) == std::string_view::npos;
  });
}
}  // namespace

std::vector<TrainingSettings> settings_of_script(const Project& project,
                                                 const ScriptFacts& script) {
  std::vector<TrainingSettings> found;
  for (const CallAt& item : script.code.arguments) {
    const std::string& name = item.call->full_name;
    // what a Trainer falls back to
    if (item.call->node.enclosing("class_definition").field("name").text().ends_with("Trainer"))
      continue;
    if (only_predict(script, item) || is_replaced(project, script, item)) continue;
    const bool of_library = name.starts_with("transformers.") || name.starts_with("trl.");
    const bool itself =
        item.call->last_name() == "TrainingArguments" && name.starts_with("transformers.");
    found.push_back({item.file, itself ? SettingsKind::training_arguments : SettingsKind::subclass,
                     std::string(item.call->last_name()), ArgumentSet::of_call(*item.call), &script,
                     of_library});
  }
  if (script.code.parses_arguments)
    for (const Launch& launch : script.launches) {
      ArgumentSet options = ArgumentSet::of_command(*launch.line, launch.script_word + 1);
      if (looks_like_arguments(options, kEnoughOfALine) && !only_evaluates(options))
        found.push_back({launch.file, SettingsKind::command_line, "the command line",
                         std::move(options), &script, false});
    }
  return found;
}

std::optional<TrainingSettings> settings_of_file(const Project& project, FileId file) {
  const SourceFile& source = project.file(file);
  if (source.kind() != FileKind::yaml && source.kind() != FileKind::json) return std::nullopt;
  const std::string& text = source.text();
  if (text.find("batch_size") == std::string::npos && text.find("output_dir") == std::string::npos)
    return std::nullopt;
  // Hydra's, with readers of the project's own
  for (const char* word : {"\nhydra:", "\ndefaults:", "_target_:"})
    if (("\n" + text).find(word) != std::string::npos) return std::nullopt;
  const SyntaxTree* const tree = source.tree();
  if (tree == nullptr) return std::nullopt;
  // The whole file, or one level below its top: `training: {...}`.
  std::size_t looked_at = 0;
  for (std::uint32_t index = 0; index < tree->size() && looked_at < 20; ++index) {
    const Node node = tree->at(index);
    const bool mapping = node.is("block_mapping") || node.is("object");
    if (!mapping) continue;
    ++looked_at;
    if (auto settings = recognised(
            file, node.is("object") ? ArgumentSet::of_json(node) : ArgumentSet::of_yaml(node)))
      return settings;
  }
  return std::nullopt;
}

}  // namespace lockstep
