// What the rules about training settings share.
#pragma once

#include <string>

#include "fix/settings/training_settings.hpp"

namespace lockstep {

// Runs a check over every settings of a script, or over a settings file.
using CheckSettings = void (*)(const RuleInput& input, const TrainingSettings& settings,
                               std::vector<CodeFinding>& findings);
void for_settings_of(const RuleInput& input, const ScriptFacts& script,
                     std::vector<CodeFinding>& findings, CheckSettings check);
void for_settings_in(const RuleInput& input, FileId file, std::vector<CodeFinding>& findings,
                     CheckSettings check);

// Sets one name to a value, with everything a reader is told.
struct SettingFix {
  FindingCode code;
  Severity severity = Severity::warning;
  FixSafety safety = FixSafety::unsafe;
  std::string name;
  std::string value;  // as Python writes it
  std::string reason;
  std::string description;
  std::string effect;
  std::string changes;
  std::string group;  // of findings that are applied together
};
void propose(const RuleInput& input, const TrainingSettings& settings, SettingFix fix,
             std::vector<CodeFinding>& findings);

// Where a setting stands, else the whole call.
Place place_in(const TrainingSettings& settings, std::string_view name);
// Whether a comment on the setting's line says why it is as it is.
bool is_explained(const RuleInput& input, const TrainingSettings& settings, std::string_view name);
// Whether the installed Transformers takes the field; true when the version is not known and the
// newest does.
bool is_taken(const Project& project, FileId file, std::string_view field);

// Online methods make their own data: each step takes seconds, and the prompts' loader has next to
// nothing to do.
bool generates(std::string_view owner);

}  // namespace lockstep
