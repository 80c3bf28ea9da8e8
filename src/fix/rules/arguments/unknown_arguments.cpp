// Finds names that the installed Transformers does not take, or that the next one will not.
//
// Why it matters: an unknown name ends the run at once with a TypeError, on every rank, often hours
// after the job was queued. The fields change with every minor release; which release has which is
// in knowledge/arguments.json, read from the wheels themselves.
//
// Subclasses (SFTConfig, a class of the project) and files that mix several classes have names of
// their own: there only names that TrainingArguments once had are looked at.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "fix/knowledge/argument_history.hpp"
#include "fix/rules/arguments/settings_rules.hpp"

namespace lockstep {
namespace {

// Names that moved, with the same meaning under the new one.
struct Renamed {
  std::string_view old_name;
  std::string_view new_name;
  std::string_view for_value;  // Python's spelling; empty: any value, which is kept
  std::string_view new_value;  // empty: the old one
};
constexpr std::array kRenamed = {
    Renamed{"evaluation_strategy", "eval_strategy", "", ""},
    Renamed{"no_cuda", "use_cpu", "", ""},
    Renamed{"per_gpu_train_batch_size", "per_device_train_batch_size", "", ""},
    Renamed{"per_gpu_eval_batch_size", "per_device_eval_batch_size", "", ""},
    Renamed{"push_to_hub_token", "hub_token", "", ""},
    Renamed{"push_to_hub_model_id", "hub_model_id", "", ""},
    // a fraction below 1 is a ratio from 5.0 on; the table keeps older ones away
    Renamed{"warmup_ratio", "warmup_steps", "", ""},
    Renamed{"group_by_length", "train_sampling_strategy", "True", "\"group_by_length\""},
    Renamed{"adafactor", "optim", "True", "\"adafactor\""},
};
const Renamed* renaming_of(std::string_view name) {
  const auto found =
      std::ranges::find_if(kRenamed, [&](const Renamed& row) { return row.old_name == name; });
  return found == kRenamed.end() ? nullptr : &*found;
}

// Names that are gone and that a run does as well without.
constexpr std::array<std::string_view, 12> kIdle = {"overwrite_output_dir",
                                                    "save_safetensors",
                                                    "logging_dir",
                                                    "use_mps_device",
                                                    "fp16_backend",
                                                    "half_precision_backend",
                                                    "xpu_backend",
                                                    "include_tokens_per_second",
                                                    "ray_scope",
                                                    "past_index",
                                                    "tpu_num_cores",
                                                    "mp_parameters"};

// A new name that every release of the last two years knows: worth offering where the version is
// not known.
const Version& long_known() {
  static const Version version = *Version::parse("4.41");
  return version;
}

class ArgumentChecker {
 public:
  ArgumentChecker(const RuleInput& input, const TrainingSettings& settings,
                  std::vector<CodeFinding>& findings)
      : input_(input), settings_(settings), findings_(findings) {
    const Versions& versions = input.project.versions_for(settings.file);
    const auto found = versions.find("transformers");
    if (found == versions.end()) {
      allowed_ = {history_.newest()};
      words_ = fmt::format("as of {}; no installed version was found", history_.newest().text());
      return;
    }
    certain_ = true;
    exact_ = found->second.exact;
    allowed_ = history_.allowed_by(found->second);
    pinned_unknown_ = found->second.unknown;
    words_ = fmt::format("Transformers {}{} by {}", exact_ ? "" : "from ",
                         found->second.version.text(), found->second.from);
  }

  void run() {
    if (allowed_.empty() || pinned_unknown_ || !history_.covers(allowed_.front())) return;
    for (const Setting& setting : settings_.arguments.settings()) look_at(setting);
  }

 private:
  bool all_have(std::string_view name) const {
    return std::ranges::all_of(allowed_,
                               [&](const Version& version) { return history_.has(version, name); });
  }
  bool none_has(std::string_view name) const {
    return std::ranges::none_of(
        allowed_, [&](const Version& version) { return history_.has(version, name); });
  }

  void look_at(const Setting& setting) {
    const Renamed* const renamed = renaming_of(setting.name);
    if (history_.knows(setting.name)) {
      const auto first = history_.first_with(setting.name);
      if (exact_ && allowed_.front() < *first) {
        // it brings a Transformers of its own
        if (settings_.kind != SettingsKind::llama_factory) too_new(setting, *first);
        return;
      }
      if (none_has(setting.name)) {
        if (certain_ || is_long_renamed(setting.name)) gone(setting, renamed);
        return;
      }
      // Still taken, and gone in a later release: the new name is the same thing.
      if (renamed != nullptr && history_.removed_in(setting.name) &&
          is_long_renamed(setting.name) &&
          (all_have(renamed->new_name) || (!exact_ && !all_have(setting.name))))
        gone(setting, renamed);
      return;
    }
    if (settings_.kind == SettingsKind::training_arguments &&
        !(history_.newest() < allowed_.back()))
      never_was(setting);
  }

  bool is_long_renamed(std::string_view name) const {
    const Renamed* const renamed = renaming_of(name);
    const auto first = renamed == nullptr ? std::nullopt : history_.first_with(renamed->new_name);
    return first && !(long_known() < *first) && name != "warmup_ratio";
  }

  CodeFinding finding(const Setting& setting, Severity severity, std::string reason) const {
    CodeFinding result;
    result.code = FindingCode::unknown_training_argument;
    result.severity = severity;
    result.reason = std::move(reason);
    result.where = {place_of(settings_.file, setting.whole)};
    return result;
  }

  const std::string& text() const { return input_.project.file(settings_.file).text(); }

  void gone(const Setting& setting, const Renamed* renamed) {
    const auto removed = history_.removed_in(setting.name);
    const bool fails = none_has(setting.name);
    const std::string when =
        removed ? fmt::format("Transformers {} took {} away", removed->text(), setting.name)
                : fmt::format("{} is not in this release", setting.name);
    CodeFinding result =
        finding(setting, fails && certain_ ? Severity::critical : Severity::warning,
                fmt::format("{} ({}){}", when, words_,
                            !fails     ? ": newer releases end with a TypeError"
                            : certain_ ? ": the run ends with a TypeError"
                                       : ""));
    if (auto other_name = renamed == nullptr ? std::nullopt : renaming(setting, *renamed)) {
      result.ways.push_back(std::move(*other_name));
    } else {
      if (!fails || !certain_) return;  // it may well be there
      const bool idle = std::ranges::find(kIdle, setting.name) != kIdle.end();
      Way way;
      way.safety = idle ? FixSafety::unsafe : FixSafety::manual;
      way.description =
          setting.name == "logging_dir"
              ? "take it away; TENSORBOARD_LOGGING_DIR in the environment has its place"
          : idle
              ? fmt::format("take {} away", setting.name)
              : fmt::format("take {} away, and see the release's notes for what does its work now",
                            setting.name);
      way.effect = "this argument no longer ends the run";
      way.changes = fmt::format("what {} did no longer happens", setting.name);
      way.files.push_back({settings_.file, settings_.arguments.remove(text(), setting)});
      if (way.files.front().edits.empty()) way.files.clear();
      result.ways.push_back(std::move(way));
    }
    findings_.push_back(std::move(result));
  }

  std::optional<Way> renaming(const Setting& setting, const Renamed& renamed) const {
    if (settings_.arguments.has(renamed.new_name) || is_read_elsewhere(setting.name))
      return std::nullopt;
    // A ratio and a number of steps are told apart by being below 1.
    const bool ratio = setting.name == "warmup_ratio";
    if (ratio && setting.number && (*setting.number >= 1 || *setting.number < 0))
      return std::nullopt;
    Way way;
    way.description = fmt::format("{} is now {}", setting.name, renamed.new_name);
    way.effect = "this argument no longer ends the run";
    auto edits = settings_.arguments.rename(setting, renamed.new_name);
    if (!renamed.for_value.empty()) {
      if (!settings_.arguments.says(setting.name, renamed.for_value)) return std::nullopt;
      for (Edit& edit : settings_.arguments.set(text(), setting.name, renamed.new_value))
        edits.push_back(std::move(edit));
    }
    way.files.push_back({settings_.file, in_order(std::move(edits))});
    const auto from = ratio ? Version::parse("5.0") : history_.first_with(renamed.new_name);
    const bool everywhere =
        certain_ && from &&
        std::ranges::none_of(allowed_, [&](const Version& version) { return version < *from; });
    // A file of settings may be read by more than TrainingArguments.
    const bool own_code = settings_.arguments.carrier() == Carrier::python;
    way.safety =
        everywhere && own_code && !(ratio && !setting.number) ? FixSafety::safe : FixSafety::unsafe;
    // Beside other names of old, an old release is what the user has: then the new name may be
    // unknown there.
    const auto& all = settings_.arguments.settings();
    const bool lives_in_the_past = std::ranges::any_of(all, [&](const Setting& other) {
      return other.name != setting.name && history_.knows(other.name) &&
             !history_.has(history_.newest(), other.name);
    });
    // Trainer(tokenizer=...) is gone in Transformers 5: with it in the script, an older release is
    // what the user has.
    const bool old_trainer =
        settings_.script != nullptr &&
        std::ranges::any_of(settings_.script->code.trainers, [](const CallAt& trainer) {
          return trainer.call->argument("tokenizer") != nullptr;
        });
    if (!everywhere && (lives_in_the_past || (!certain_ && old_trainer)))
      way.safety = FixSafety::manual;
    if (!everywhere)
      way.changes = fmt::format("needs Transformers {} or newer: older ones do not know {}",
                                from ? from->text() : "?", renamed.new_name);
    else if (!own_code)
      way.changes = fmt::format("whatever else reads {} from this file", setting.name);
    return way;
  }

  // A key of a file that the project's own code asks for by its old name.
  bool is_read_elsewhere(const std::string& name) const {
    if (settings_.arguments.carrier() == Carrier::python) return false;
    for (FileId file = 0; file < input_.project.size(); ++file)
      if (input_.project.file(file).kind() == FileKind::python &&
          input_.project.file(file).text().find(name) != std::string::npos)
        return true;
    return false;
  }

  void too_new(const Setting& setting, const Version& first) {
    CodeFinding result = finding(
        setting, Severity::critical,
        fmt::format("{} is known from Transformers {} on ({}): the run ends with a TypeError",
                    setting.name, first.text(), words_));
    Way way;
    way.kind = FixKind::advice;
    way.description = fmt::format("upgrade Transformers to {} or newer, or take {} away",
                                  first.text(), setting.name);
    // The new name of an old one is only a matter of spelling.
    for (const Renamed& renamed : kRenamed)
      if (renamed.new_name == setting.name && renamed.for_value.empty() &&
          all_have(renamed.old_name) && setting.name != "warmup_steps") {
        way.kind = FixKind::edit;
        way.safety =
            settings_.arguments.carrier() == Carrier::python ? FixSafety::safe : FixSafety::unsafe;
        way.description =
            fmt::format("{} is still called {} in this release", setting.name, renamed.old_name);
        way.effect = "this argument no longer ends the run";
        way.files.push_back(
            {settings_.file, settings_.arguments.rename(setting, renamed.old_name)});
      }
    result.ways.push_back(std::move(way));
    findings_.push_back(std::move(result));
  }

  void never_was(const Setting& setting) {
    const auto near = nearest(setting.name, history_.fields_of(allowed_.back()));
    CodeFinding result =
        finding(setting, Severity::critical,
                fmt::format("TrainingArguments has no {} ({}): the run ends with a TypeError",
                            setting.name, words_));
    Way way;
    if (near && !settings_.arguments.has(*near)) {
      way.safety = FixSafety::unsafe;
      way.description = fmt::format("did you mean {}?", *near);
      way.effect = "this argument no longer ends the run";
      way.changes = "the setting takes effect";
      way.files.push_back({settings_.file, settings_.arguments.rename(setting, *near)});
    } else {
      way.kind = FixKind::advice;
      way.description = "no release has a name near it: take it away, or give it where it belongs";
    }
    result.ways.push_back(std::move(way));
    findings_.push_back(std::move(result));
  }

  const RuleInput& input_;
  const TrainingSettings& settings_;
  std::vector<CodeFinding>& findings_;
  const ArgumentHistory& history_ = ArgumentHistory::of_transformers();
  std::vector<Version> allowed_;
  std::string words_;     // where the version is from
  bool certain_ = false;  // false: the newest that the table knows stands in for an unknown one
  bool exact_ = false;
  bool pinned_unknown_ = false;  // a commit: some version, and nobody here knows which
};

void check_argument_names(const RuleInput& input, const TrainingSettings& settings,
                          std::vector<CodeFinding>& findings) {
  if (settings.kind == SettingsKind::axolotl) return;
  ArgumentChecker(input, settings, findings).run();
}

}  // namespace

void unknown_in_script(const RuleInput& input, const ScriptFacts& script,
                       std::vector<CodeFinding>& findings) {
  for (const TrainingSettings& settings : settings_of_script(input.project, script))
    check_argument_names(input, settings, findings);
}
void unknown_in_file(const RuleInput& input, FileId file, std::vector<CodeFinding>& findings) {
  for_settings_in(input, file, findings, check_argument_names);
}

}  // namespace lockstep
