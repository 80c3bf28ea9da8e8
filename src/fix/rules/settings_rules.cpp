#include "fix/rules/settings_rules.hpp"

#include "fix/knowledge/argument_history.hpp"

namespace lockstep {

void for_settings_of(const RuleInput& input, const ScriptFacts& script, std::vector<CodeFinding>& findings, CheckSettings check) {
  if (!script.code.trains_with_trainer) return;
  for (const TrainingSettings& settings : settings_of_script(input, script)) check(input, settings, findings);
}

void for_settings_in(const RuleInput& input, FileId file, std::vector<CodeFinding>& findings, CheckSettings check) {
  if (const auto settings = settings_of_file(input.project, file)) check(input, *settings, findings);
}

Place place_in(const TrainingSettings& settings, std::string_view name) {
  const Setting* const setting = settings.arguments.find(name);
  if (setting != nullptr) return place_of(settings.file, setting->whole);
  const Node node = settings.arguments.node();
  // The line of the call, not all its lines.
  const Node owner = node.is("argument_list") ? node.parent() : node;
  return {settings.file, owner.from(), owner.from()};
}

void propose(const RuleInput& input, const TrainingSettings& settings, SettingFix fix, std::vector<CodeFinding>& findings) {
  CodeFinding finding;
  finding.code = fix.code;
  finding.severity = fix.severity;
  finding.reason = std::move(fix.reason);
  finding.where = {place_in(settings, fix.name)};
  Way way;
  way.safety = fix.safety;
  way.description = std::move(fix.description);
  way.effect = std::move(fix.effect);
  way.changes = std::move(fix.changes);
  const bool present = settings.arguments.has(fix.name);
  if (!present && (settings.arguments.is_open() || !settings.arguments.can_grow())) return;
  auto edits = settings.arguments.set(input.project.file(settings.file).text(), fix.name, fix.value);
  if (edits.empty()) return;
  way.files.push_back({settings.file, std::move(edits)});
  finding.ways.push_back(std::move(way));
  findings.push_back(std::move(finding));
}

bool is_taken(const Project& project, std::string_view field) {
  const ArgumentHistory& history = ArgumentHistory::of_transformers();
  const auto found = project.versions().find("transformers");
  if (found == project.versions().end()) return history.has(history.newest(), field);
  return history.has(found->second.version, field);
}

}  // namespace lockstep
