// Finds names that the installed Transformers does not take, or that the next one will not.
//
// Why it matters: an unknown name ends the run at once with a TypeError, on every rank, often hours after the job was
// queued. The fields change with every minor release; which release has which is in knowledge/arguments.json, read from
// the wheels themselves.
//
// Subclasses (SFTConfig, a class of the project) and files that mix several classes have names of their own: there only
// names that TrainingArguments once had are looked at.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "fix/knowledge/argument_history.hpp"
#include "fix/rules/settings_rules.hpp"

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
    Renamed{"warmup_ratio", "warmup_steps", "", ""},  // a fraction below 1 is a ratio from 5.0 on; the table keeps older ones away
    Renamed{"group_by_length", "train_sampling_strategy", "True", "\"group_by_length\""},
    Renamed{"adafactor", "optim", "True", "\"adafactor\""},
};
// The release from which the new name means the same; else the first that has it.
constexpr std::array<std::pair<std::string_view, std::string_view>, 1> kMeansTheSameFrom = {{{"warmup_ratio", "5.0"}}};

const Renamed* renaming_of(std::string_view name) {
  const auto found = std::find_if(kRenamed.begin(), kRenamed.end(), [&](const Renamed& row) { return row.old_name == name; });
  return found == kRenamed.end() ? nullptr : &*found;
}

struct Known {
  Version version;
  std::string words;   // "Transformers 4.57.6 (requirements.txt)"
  bool certain = true;  // false: the newest that the table knows, for want of better
  bool exact = true;
  std::optional<Version> at_most = std::nullopt;  // of those that a requirement allows
};

// A new name that every release of the last two years knows: worth offering where the version is not known.
const Version& long_known() {
  static const Version version = *Version::parse("4.41");
  return version;
}

Known version_of(const Project& project) {
  const ArgumentHistory& history = ArgumentHistory::of_transformers();
  const auto found = project.versions().find("transformers");
  if (found == project.versions().end()) return {history.newest(), fmt::format("Transformers {}, the newest known here (no installed version was found)", history.newest().text()), false, false};
  return {found->second.version, fmt::format("Transformers {}{} ({})", found->second.exact ? "" : "from ", found->second.version.text(), found->second.from), true, found->second.exact, found->second.at_most};
}

class Checker {
 public:
  Checker(const RuleInput& input, const TrainingSettings& settings, std::vector<CodeFinding>& findings)
      : input_(input), settings_(settings), findings_(findings), known_(version_of(input.project)) {}

  void run() {
    if (!history_.covers(known_.version)) return;
    for (const Setting& setting : settings_.arguments.settings()) look_at(setting);
  }

 private:
  void look_at(const Setting& setting) {
    if (history_.has(known_.version, setting.name)) {
      // A least version tells what is there from then on; a newer one that is allowed may have lost it.
      const auto gone = history_.removed_in(setting.name);
      if (known_.exact || !known_.certain || !gone || (known_.at_most && *known_.at_most < *gone) || !is_long_renamed(setting.name)) return;
    } else if (!known_.certain && history_.knows(setting.name) && !is_long_renamed(setting.name)) {
      return;  // many have an older one that takes it
    }
    if (history_.knows(setting.name)) {
      const auto first = history_.first_with(setting.name);
      if (!(known_.version < *first)) return gone(setting);
      if (known_.exact) too_new(setting, *first);
      return;
    }
    if (settings_.kind == SettingsKind::training_arguments) never_was(setting);
  }

  bool is_long_renamed(std::string_view name) const {
    const Renamed* const renamed = renaming_of(name);
    const auto first = renamed == nullptr ? std::nullopt : history_.first_with(renamed->new_name);
    return first && !(long_known() < *first) && std::none_of(kMeansTheSameFrom.begin(), kMeansTheSameFrom.end(), [&](const auto& row) { return row.first == name; });
  }

  CodeFinding finding(const Setting& setting, std::string reason) const {
    CodeFinding result;
    result.code = FindingCode::unknown_training_argument;
    result.severity = Severity::critical;
    result.reason = std::move(reason);
    result.where = {place_of(settings_.file, setting.whole)};
    return result;
  }

  const std::string& text() const { return input_.project.file(settings_.file).text(); }

  void gone(const Setting& setting) {
    const auto removed = history_.removed_in(setting.name);
    const std::string when = removed ? fmt::format("{} is gone since {}", setting.name, removed->text()) : fmt::format("{} is not in this release", setting.name);
    CodeFinding result = finding(setting, fmt::format("{} ({}): {}", when, known_.words, settings_.arguments.carrier() == Carrier::python ? "the run ends with a TypeError" : "the run ends at once"));
    if (const Renamed* const renamed = renaming_of(setting.name)) {
      if (auto way = renaming(setting, *renamed)) result.ways.push_back(std::move(*way));
    }
    if (result.ways.empty()) {
      if (known_.certain && !known_.exact) return;  // it may well be there
      Way way;
      way.safety = FixSafety::unsafe;
      way.description = setting.name == "logging_dir" ? "take it away; TENSORBOARD_LOGGING_DIR in the environment has its place" : fmt::format("take {} away", setting.name);
      way.effect = "the run starts";
      way.changes = fmt::format("what {} did no longer happens", setting.name);
      way.files.push_back({settings_.file, settings_.arguments.remove(text(), setting)});
      result.ways.push_back(std::move(way));
      if (!known_.certain) result.ways.back().safety = FixSafety::manual;
    }
    findings_.push_back(std::move(result));
  }

  std::optional<Way> renaming(const Setting& setting, const Renamed& renamed) const {
    if (settings_.arguments.has(renamed.new_name)) return std::nullopt;
    Way way;
    way.description = fmt::format("{} is now {}", setting.name, renamed.new_name);
    way.effect = "the run starts";
    auto edits = settings_.arguments.rename(setting, renamed.new_name);
    if (!renamed.for_value.empty()) {
      if (setting.value.text() != renamed.for_value && !(setting.truth == true && renamed.for_value == "True")) return std::nullopt;
      for (Edit& edit : settings_.arguments.set(text(), setting.name, renamed.new_value)) edits.push_back(std::move(edit));
    }
    way.files.push_back({settings_.file, in_order(std::move(edits))});
    std::optional<Version> from = history_.first_with(renamed.new_name);
    for (const auto& [name, release] : kMeansTheSameFrom)
      if (name == setting.name) from = Version::parse(release);
    const bool means_the_same = from && !(known_.version < *from) && known_.certain;
    way.safety = means_the_same ? FixSafety::safe : FixSafety::unsafe;
    if (!means_the_same) way.changes = fmt::format("needs Transformers {} or newer: older ones do not know {}", from ? from->text() : "?", renamed.new_name);
    return way;
  }

  void too_new(const Setting& setting, const Version& first) {
    CodeFinding result = finding(setting, fmt::format("{} is known from Transformers {} on, and this is {}: the run ends with a TypeError", setting.name, first.text(), known_.words));
    Way way;
    way.safety = FixSafety::manual;
    way.description = fmt::format("upgrade Transformers to {} or newer, or take {} away", first.text(), setting.name);
    way.kind = FixKind::advice;
    // The new name of an old one is only a matter of spelling.
    for (const Renamed& renamed : kRenamed)
      if (renamed.new_name == setting.name && renamed.for_value.empty() && history_.has(known_.version, renamed.old_name) && known_.exact && setting.name != "warmup_steps") {
        way.kind = FixKind::edit;
        way.safety = FixSafety::safe;
        way.description = fmt::format("{} is still called {} in this release", setting.name, renamed.old_name);
        way.effect = "the run starts";
        way.files.push_back({settings_.file, settings_.arguments.rename(setting, renamed.old_name)});
      }
    result.ways.push_back(std::move(way));
    findings_.push_back(std::move(result));
  }

  void never_was(const Setting& setting) {
    const auto near = nearest(setting.name, history_.fields_of(known_.version));
    CodeFinding result = finding(setting, fmt::format("TrainingArguments has no {} ({}): the run ends with a TypeError", setting.name, known_.words));
    Way way;
    if (near && !settings_.arguments.has(*near)) {
      way.safety = FixSafety::unsafe;
      way.description = fmt::format("did you mean {}?", *near);
      way.effect = "the run starts";
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
  Known known_;
};

void check(const RuleInput& input, const TrainingSettings& settings, std::vector<CodeFinding>& findings) {
  if (settings.kind != SettingsKind::axolotl) Checker(input, settings, findings).run();
}

}  // namespace

void unknown_in_script(const RuleInput& input, const ScriptFacts& script, std::vector<CodeFinding>& findings) {
  for (const TrainingSettings& settings : settings_of_script(input, script)) check(input, settings, findings);
}
void unknown_in_file(const RuleInput& input, FileId file, std::vector<CodeFinding>& findings) { for_settings_in(input, file, findings, check); }

}  // namespace lockstep
