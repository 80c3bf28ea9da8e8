#include "fix/rules/arguments/settings_rules.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "fix/knowledge/argument_history.hpp"

namespace lockstep {

void for_settings_of(const RuleInput& input, const ScriptFacts& script,
                     std::vector<CodeFinding>& findings, CheckSettings check) {
  if (!script.code.trains_with_trainer) return;
  for (const TrainingSettings& settings : settings_of_script(input.project, script))
    check(input, settings, findings);
}

void for_settings_in(const RuleInput& input, FileId file, std::vector<CodeFinding>& findings,
                     CheckSettings check) {
  const auto settings = settings_of_file(input.project, file);
  if (!settings) return;
  // A file that only looks like arguments may be read by the project's own code, which knows other
  // names.
  const bool read_by_parser = std::ranges::any_of(
      input.scripts, [](const auto& row) { return row.second.code.parses_arguments; });
  if (settings->kind == SettingsKind::arguments_file && !read_by_parser) return;
  // it only evaluates
  if (settings->arguments.truth("do_train") == false || settings->arguments.number("do_train") == 0)
    return;
  check(input, *settings, findings);
}

Place place_in(const TrainingSettings& settings, std::string_view name) {
  const Setting* const setting = settings.arguments.find(name);
  if (setting != nullptr) return place_of(settings.file, setting->whole);
  const Node node = settings.arguments.node();
  // The line of the call, not all its lines.
  const TextSpan owner = node.is("argument_list") ? node.parent() : settings.arguments.span();
  return {settings.file, owner.from(), owner.from()};
}

void propose(const RuleInput& input, const TrainingSettings& settings, SettingFix fix,
             std::vector<CodeFinding>& findings) {
  CodeFinding finding;
  finding.code = fix.code;
  finding.severity = fix.severity;
  finding.reason = std::move(fix.reason);
  finding.where = {place_in(settings, fix.name)};
  finding.group = std::move(fix.group);
  Way way;
  way.safety = fix.safety;
  way.description = std::move(fix.description);
  way.effect = std::move(fix.effect);
  way.changes = std::move(fix.changes);
  const bool present = settings.arguments.has(fix.name);
  // A misspelt name is put right first; its value may be what is asked for.
  const std::vector<std::string> wanted = {fix.name};
  const bool misspelt =
      std::ranges::any_of(settings.arguments.settings(), [&](const Setting& setting) {
        return !ArgumentHistory::of_transformers().knows(setting.name) &&
               nearest(setting.name, wanted);
      });
  if (!present && misspelt) return;
  if (!present &&
      (settings.arguments.is_open() || settings.arguments.carrier() != Carrier::python ||
       !settings.defaults_known || !settings.arguments.can_grow()))
    return;
  auto edits =
      settings.arguments.set(input.project.file(settings.file).text(), fix.name, fix.value);
  if (edits.empty()) return;
  way.files.push_back({settings.file, std::move(edits)});
  finding.ways.push_back(std::move(way));
  findings.push_back(std::move(finding));
}

bool generates(std::string_view owner) {
  return owner.starts_with("GRPO") || owner.starts_with("RLOO") || owner.starts_with("PPO") ||
         owner.starts_with("Online") || owner.starts_with("XPO") || owner.starts_with("Nash");
}

bool is_explained(const RuleInput& input, const TrainingSettings& settings, std::string_view name) {
  const Setting* const setting = settings.arguments.find(name);
  const std::string_view text = input.project.file(settings.file).text();
  if (setting == nullptr) {
    // Tried and taken away again: # dataloader_num_workers=16,
    const std::string_view call = settings.arguments.span().text();
    for (std::size_t at = call.find(name); at != std::string_view::npos;
         at = call.find(name, at + 1))
      if (trim(call.substr(line_start(call, at), at - line_start(call, at))).starts_with("#"))
        return true;
    return false;
  }
  // A comment on a line of its own right above speaks for the lines below it, up to the next blank
  // one.
  std::size_t start = line_start(text, setting->whole.from());
  for (int lines = 0; lines < 3 && start > 0; ++lines) {
    start = line_start(text, start - 1);
    const std::string_view line = trim(text.substr(start, line_end(text, start) - start));
    if (line.empty()) break;
    if (line.starts_with("#")) return true;
  }
  return text.substr(setting->whole.to(), line_end(text, setting->whole.to()) - setting->whole.to())
             .find('#') != std::string_view::npos;
}

bool is_taken(const Project& project, FileId file, std::string_view field) {
  const ArgumentHistory& history = ArgumentHistory::of_transformers();
  const Versions& versions = project.versions_for(file);
  const auto found = versions.find("transformers");
  if (found == versions.end()) return history.has(history.newest(), field);
  const auto allowed = history.allowed_by(found->second);
  return std::ranges::all_of(allowed,
                             [&](const Version& version) { return history.has(version, field); });
}

}  // namespace lockstep
