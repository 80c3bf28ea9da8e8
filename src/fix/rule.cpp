#include "fix/rule.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

bool ScriptFacts::is_launched_distributed() const {
  return std::ranges::any_of(launches,
                             [](const Launch& launch) { return launch.is_distributed(); });
}

std::vector<const TrainingLoop*> ScriptFacts::all_loops() const {
  std::vector<const TrainingLoop*> all;
  for (const TrainingLoop& loop : loops) all.push_back(&loop);
  for (const TrainingLoop& loop : spread_loops) all.push_back(&loop);
  return all;
}

ScriptFacts script_facts(const Project& project, FileId script) {
  ScriptFacts facts;
  facts.code = training_code(project, script);
  facts.origins = std::make_shared<ValueOrigins>(project, facts.code);
  facts.loops = training_loops(facts.code, *facts.origins);
  facts.spread_loops = spread_loops(facts.code, *facts.origins);
  return facts;
}

std::map<FileId, std::vector<Edit>> edits_of(const std::vector<const Way*>& ways) {
  std::map<FileId, std::vector<Edit>> edits;
  for (const Way* way : ways)
    for (const Change& change : way->files)
      edits[change.file].insert(edits[change.file].end(), change.edits.begin(), change.edits.end());
  for (auto& [file, list] : edits) list = in_order(std::move(list));
  return edits;
}

bool can_import(const PythonModule& module, std::string_view name, Node at) {
  if (!module.assigned(name).empty()) return false;
  const Node function = at.enclosing("function_definition");
  return std::ranges::none_of(module.imports(), [&](const PythonImport& import) {
    return !import.at_top && import.name.empty() && import.module == name && function &&
           function.contains(import.statement);
  });
}

bool is_older(const Project& project, FileId file, std::string_view package,
              std::string_view least) {
  const Versions& versions = project.versions_for(file);
  const auto found = versions.find(package);
  return found != versions.end() &&
         (found->second.unknown ||
          (found->second.exact && found->second.version < *Version::parse(least)));
}

std::string launch_group(FileId script) {
  return fmt::format("one process per GPU for {}", script);
}

bool is_sharded_by_launch(const Project& project, const ScriptFacts& script) {
  return std::ranges::any_of(script.launches, [&](const Launch& launch) {
    if (launch.launcher == Launcher::deepspeed) return true;
    if (!launch.config) return false;
    const std::string& config = project.file(*launch.config).text();
    return config.find("DEEPSPEED") != std::string::npos ||
           config.find("FSDP") != std::string::npos;
  });
}

std::string place_words(const Project& project, const Place& place) {
  const SourceFile::Spot spot = project.file(place.file).spot(place.from);
  return fmt::format("{}:{}", spot.name, spot.line);
}

std::vector<Edit> needed_import(const PythonModule& module, std::string_view name) {
  for (const PythonImport& import : module.imports())
    if (import.at_top && import.name.empty() && import.module == name && import.alias.empty())
      return {};
  const std::string_view text = module.tree().source();
  const std::size_t place = import_place(module);
  const std::string ending(line_ending_of(text));
  const bool needs_break = place > 0 && place == text.size() && !text.ends_with('\n');
  return {{place, place, (needs_break ? ending : "") + "import " + std::string(name) + ending}};
}

}  // namespace lockstep
