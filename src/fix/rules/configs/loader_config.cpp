// Finds `num_workers: 0` and `pin_memory: false` in YAML that a project's loaders are made of:
// Hydra's `_target_:` of a data module or a loader, and OmegaConf's keys that Python hands to a
// DataLoader (`num_workers=cfg.data.num_workers`).
//
// Why it costs: see hand_loader.cpp. The number stands in another file than the loader, so nobody
// who reads the code sees it.
//
// Silent in parts for validation and tests, and in settings for debugging.
#include <algorithm>

#include "base/text.hpp"
#include "fix/rules/loops/loop_rules.hpp"
#include "fix/settings/training_settings.hpp"

namespace lockstep {
namespace {

bool holds_a_word(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(
      words, [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

// Or the record of one that is over: Lightning's hparams.yaml, W&B's and Hydra's copies.
bool is_for_another_run(const SourceFile& source) {
  return holds_a_word(
      lower_case(source.name()),
      {"debug", "test", "eval", "infer", "predict", "hparams.y", "version_", "wandb/", "outputs/",
       "runs/", "ckpt", "checkpoint", "multirun", "log/", "logs/", "log_", "_log", "results"});
}

// The keys around a mapping: `val_loader:`.
bool stands_below_evaluation(Node mapping) {
  for (Node pair = mapping.enclosing("block_mapping_pair"); pair;
       pair = pair.enclosing("block_mapping_pair"))
    if (holds_a_word(lower_case(pair.field("key").text()), {"val", "test", "eval", "predict"}))
      return true;
  return false;
}

// Of cfg.data.num_workers and cfg["num_workers"]: num_workers.
std::string_view last_key(Node value) {
  if (value.is("attribute")) return value.field("attribute").text();
  if (!value.is("subscript")) return "";
  std::string_view key = value.field("subscript").text();
  if (key.size() > 2 && (key.front() == '"' || key.front() == '\''))
    return key.substr(1, key.size() - 2);
  return "";
}

// Whether a loader of the project gets the argument from a setting of that name.
bool is_handed_on(const Project& project, std::string_view argument, std::string_view key) {
  for (FileId file = 0; file < project.size(); ++file) {
    const SourceFile& source = project.file(file);
    if (source.kind() != FileKind::python ||
        source.text().find("DataLoader") == std::string::npos ||
        source.text().find(argument) == std::string::npos || source.python() == nullptr)
      continue;
    for (const PythonCall& call : source.python()->calls()) {
      const PythonArgument* const given =
          call.last_name() == "DataLoader" ? call.argument(argument) : nullptr;
      if (given != nullptr && last_key(given->value) == key) return true;
    }
  }
  return false;
}

bool makes_a_loader(const ArgumentSet& mapping) {
  const std::string target = mapping.word("_target_").value_or("");
  return target.ends_with("DataLoader") || target.ends_with("DataModule");
}

void check_key(const RuleInput& input, FileId file, const ArgumentSet& mapping,
               std::string_view name, FindingCode code, std::string_view value, std::string reason,
               std::string description, std::string changes, std::vector<CodeFinding>& findings) {
  if (!makes_a_loader(mapping) && !is_handed_on(input.project, name, name)) return;
  propose({.code = code,
           .where = {place_of(file, mapping.find(name)->whole)},
           .reason = std::move(reason),
           .description = std::move(description),
           .effect = code == FindingCode::pageable_copies
                         ? "the host goes on while the batch travels"
                         : "batches are ready when the step is; nothing is gained where a batch is "
                           "made in less time than a step takes",
           .changes = std::move(changes),
           .files = {{file, mapping.set(input.project.file(file).text(), name, value)}}},
          findings);
}

}  // namespace

void loader_config(const RuleInput& input, FileId file, std::vector<CodeFinding>& findings) {
  const SourceFile& source = input.project.file(file);
  if (source.kind() != FileKind::yaml || is_for_another_run(source) ||
      !holds_a_word(source.text(), {"num_workers", "pin_memory"}) || source.tree() == nullptr)
    return;
  for (const Node& node : source.tree()->root().descendants("block_mapping")) {
    const ArgumentSet mapping = ArgumentSet::of_yaml(node);
    if (stands_below_evaluation(node)) continue;
    if (mapping.number("num_workers") == 0)
      check_key(input, file, mapping, "num_workers", FindingCode::loader_without_workers, "4",
                "num_workers: 0: the training process makes each batch itself, and its GPU waits "
                "meanwhile",
                "let 4 workers per rank make the batches ahead",
                "random transforms draw from each worker's own generator; 4 more processes a rank, "
                "with their memory",
                findings);
    if (mapping.truth("pin_memory") == false)
      check_key(input, file, mapping, "pin_memory", FindingCode::pageable_copies, "True",
                "pin_memory: false: every copy to the GPU goes through a staging buffer, and the "
                "host waits for it",
                "keep batches in pinned memory",
                "some host memory is locked; the numbers are the same", findings);
  }
}

}  // namespace lockstep
