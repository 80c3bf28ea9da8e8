// Finds mistakes in Accelerate's YAML.
//
// Why it matters: since 0.23 an unknown key ends `accelerate launch` with "had unknown keys"; ddp_*
// options and gradient_accumulation_steps belong to TrainingArguments (or deepspeed_config).
// `distributed_type: MULTI_CPU` without mpirun starts one process without RANK and says nothing
// (accelerate 1.15, measured), `NO` always one.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "fix/knowledge/argument_history.hpp"
#include "fix/rule.hpp"
#include "fix/settings/training_settings.hpp"

namespace lockstep {
namespace {

std::optional<ArgumentSet> accelerate_config_of(const SourceFile& source) {
  if (source.kind() != FileKind::yaml ||
      source.text().find("distributed_type") == std::string::npos || source.tree() == nullptr)
    return std::nullopt;
  for (std::uint32_t index = 0; index < source.tree()->size(); ++index) {
    const Node node = source.tree()->at(index);
    if (!node.is("block_mapping")) continue;
    ArgumentSet set = ArgumentSet::of_yaml(node);
    if (set.has("distributed_type") &&
        (set.has("compute_environment") || set.has("num_processes") || set.has("mixed_precision")))
      return set;
    return std::nullopt;  // the first mapping is the file's own
  }
  return std::nullopt;
}

class AccelerateChecker {
 public:
  AccelerateChecker(const RuleInput& input, FileId file, const ArgumentSet& config,
                    std::vector<CodeFinding>& findings)
      : input_(input),
        file_(file),
        config_(config),
        findings_(findings),
        text_(input.project.file(file).text()) {}

  void run() {
    // SageMaker has keys of its own
    if (config_.word("compute_environment").value_or("LOCAL_MACHINE") != "LOCAL_MACHINE") return;
    unknown_keys();
    processes();
  }

 private:
  Version version() const {
    const auto found = input_.project.versions_for(file_).find("accelerate");
    return found == input_.project.versions_for(file_).end() ? history_.newest()
                                                             : found->second.version;
  }

  CodeFinding finding(FindingCode code, const Setting& setting, std::string reason) const {
    CodeFinding result;
    result.code = code;
    result.severity = Severity::critical;
    result.reason = std::move(reason);
    result.where = {place_of(file_, setting.whole)};
    return result;
  }

  Way edit(FixSafety safety, std::string description, std::string effect, std::string changes,
           std::vector<Edit> edits) const {
    Way way;
    way.safety = safety;
    way.description = std::move(description);
    way.effect = std::move(effect);
    way.changes = std::move(changes);
    way.files.push_back({file_, std::move(edits)});
    return way;
  }

  // The one TrainingArguments call that this configuration is used with.
  std::optional<CallAt> arguments_beside() const {
    std::vector<CallAt> with_config;
    std::vector<CallAt> any;
    for (const auto& [script, facts] : input_.scripts) {
      const bool uses = std::ranges::any_of(
          facts.launches, [&](const Launch& launch) { return launch.config == file_; });
      for (const CallAt& call : facts.code.arguments) {
        if (uses) with_config.push_back(call);
        any.push_back(call);
      }
    }
    const auto& found = with_config.empty() ? any : with_config;
    return found.size() == 1 ? std::optional(found.front()) : std::nullopt;
  }

  void unknown_keys() {
    if (!history_.covers(version())) return;
    for (const Setting& setting : config_.settings()) {
      if (history_.has(version(), setting.name)) continue;
      if (setting.name.starts_with("ddp_") || setting.name == "gradient_accumulation_steps")
        misplaced(setting);
      else
        unknown(setting);
    }
  }

  void misplaced(const Setting& setting) {
    CodeFinding result =
        finding(FindingCode::unknown_accelerate_field, setting,
                fmt::format("{} is no key of Accelerate's configuration: accelerate launch ends "
                            "with \"had unknown keys\"; it belongs to TrainingArguments",
                            setting.name));
    Way way = edit(FixSafety::unsafe, "", "the launch starts, and the setting takes effect",
                   fmt::format("{} takes effect, which it never did", setting.name),
                   config_.remove(text_, setting));
    if (way.files.front().edits.empty()) return;
    const auto call = arguments_beside();
    const std::string value =
        setting.truth ? (*setting.truth ? "True" : "False") : std::string(setting.value.text());
    // Two configurations of one script may ask for two values: then whose is it?
    std::size_t asking = 0;
    for (FileId other = 0; other < input_.project.size(); ++other)
      if (const auto config = accelerate_config_of(input_.project.file(other));
          config && config->has(setting.name))
        ++asking;
    if (call && asking == 1 && (setting.truth || setting.number)) {
      const ArgumentSet arguments = ArgumentSet::of_call(*call->call);
      const std::string& code = input_.project.file(call->file).text();
      if (arguments.has(setting.name)) {
        way.description = fmt::format(
            "take it away: {} sets {} already",
            place_words(input_.project, place_of(call->file, call->call->node)), setting.name);
        way.changes = "";
      } else if (auto edits = arguments.set(code, setting.name, value);
                 !edits.empty() && !arguments.is_open()) {
        way.description = fmt::format(
            "move it to {}", place_words(input_.project, place_of(call->file, call->call->node)));
        way.files.push_back({call->file, std::move(edits)});
      } else {
        way.safety = FixSafety::manual;
      }
    } else {
      way.safety = FixSafety::manual;
    }
    if (way.description.empty())
      way.description = fmt::format("move it to TrainingArguments({}={})", setting.name, value);
    result.ways.push_back(std::move(way));
    findings_.push_back(std::move(result));
  }

  void unknown(const Setting& setting) {
    const auto installed = input_.project.versions_for(file_).find("accelerate");
    const bool exact =
        installed != input_.project.versions_for(file_).end() && installed->second.exact;
    if (history_.knows(setting.name) && !exact) return;  // a newer one that is allowed may have it
    std::vector<std::string> known = history_.fields_of(version());
    const auto near = nearest(setting.name, known);
    CodeFinding result = finding(
        FindingCode::unknown_accelerate_field, setting,
        fmt::format("Accelerate {} has no key {}: accelerate launch ends with \"had unknown keys\"",
                    version().text(), setting.name));
    if (history_.knows(setting.name)) {
      result.ways.push_back(
          edit(FixSafety::manual,
               fmt::format("{} is not in this release: take it away, or install one that has it",
                           setting.name),
               "the launch starts", "", config_.remove(text_, setting)));
    } else if (near && !config_.has(*near)) {
      result.ways.push_back(edit(FixSafety::unsafe, fmt::format("did you mean {}?", *near),
                                 "the launch starts", "the setting takes effect",
                                 config_.rename(setting, *near)));
    } else {
      result.ways.push_back(edit(FixSafety::manual, "take it away, or give it where it belongs",
                                 "the launch starts", "", config_.remove(text_, setting)));
    }
    findings_.push_back(std::move(result));
  }

  void processes() {
    const Setting* const type = config_.find("distributed_type");
    const auto processes = config_.number("num_processes");
    // a bare NO is a falsehood to YAML
    const auto kind = type->truth == false ? std::optional<std::string>("NO") : type->word;
    const bool for_cpu = config_.truth("use_cpu") == true || config_.word("use_cpu") == "true";
    if (!kind || for_cpu) return;
    if (kind == "MULTI_CPU" || (kind == "NO" && processes.value_or(1) > 1)) {
      CodeFinding result = finding(
          FindingCode::world_size_not_set, *type,
          kind == "MULTI_CPU"
              ? "distributed_type: MULTI_CPU starts one process without RANK unless mpirun starts "
                "it, and says nothing"
              : fmt::format(
                    "distributed_type: NO starts one process, whatever num_processes: {:.0f} says",
                    *processes));
      // NO with several processes is a contradiction, and which half is meant is not in the file.
      result.ways.push_back(edit(
          kind == "NO" ? FixSafety::manual : FixSafety::unsafe,
          kind == "NO" ? "one process per GPU: MULTI_GPU; or, if one GPU is meant, num_processes: 1"
                       : "one process per GPU: MULTI_GPU",
          "num_processes GPUs work at once", "the global batch grows with the processes",
          config_.set(text_, "distributed_type", "\"MULTI_GPU\"")));
      findings_.push_back(std::move(result));
    }
    const auto listed = config_.word("gpu_ids");
    if (kind != "MULTI_GPU" || !processes || config_.number("num_machines").value_or(1) > 1) return;
    const auto gpus = listed && *listed != "all" ? device_count(*listed) : std::nullopt;
    const Setting* const setting = config_.find("num_processes");
    if (gpus && *gpus > 0 && *processes != *gpus) {
      const bool fewer = *processes < *gpus;
      CodeFinding result = finding(
          fewer ? FindingCode::idle_gpus : FindingCode::more_ranks_than_gpus, *setting,
          fmt::format("num_processes: {:.0f} and gpu_ids: {}: {}", *processes, *listed,
                      fewer ? "the other GPUs are idle" : "there are fewer GPUs than ranks"));
      result.ways.push_back(edit(FixSafety::unsafe, fmt::format("num_processes: {}", *gpus),
                                 fewer ? "all listed GPUs work" : "each rank has a GPU",
                                 "the global batch changes with the number of processes",
                                 config_.set(text_, "num_processes", std::to_string(*gpus))));
      findings_.push_back(std::move(result));
    } else if (!gpus && *processes == 1) {
      CodeFinding result =
          finding(FindingCode::idle_gpus, *setting, "MULTI_GPU with num_processes: 1 uses one GPU");
      result.severity = Severity::info;
      Way way;
      way.kind = FixKind::advice;
      way.description = "num_processes is the number of GPUs to use";
      result.ways.push_back(std::move(way));
      findings_.push_back(std::move(result));
    }
  }

  const RuleInput& input_;
  FileId file_;
  const ArgumentSet& config_;
  std::vector<CodeFinding>& findings_;
  const std::string& text_;
  const ArgumentHistory& history_ = ArgumentHistory::of_accelerate();
};

}  // namespace

void accelerate_config(const RuleInput& input, FileId file, std::vector<CodeFinding>& findings) {
  if (const auto config = accelerate_config_of(input.project.file(file)))
    AccelerateChecker(input, file, *config, findings).run();
}

}  // namespace lockstep
