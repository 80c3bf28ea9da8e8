#include "fix/rule.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

bool ScriptFacts::is_launched_plainly() const {
  return std::any_of(launches.begin(), launches.end(), [](const Launch& launch) { return launch.launcher == Launcher::python; });
}

bool ScriptFacts::is_launched_distributed() const {
  return std::any_of(launches.begin(), launches.end(), [](const Launch& launch) { return launch.is_distributed(); });
}

std::string launch_group(FileId script) { return fmt::format("one process a GPU for {}", script); }

std::string place_words(const Project& project, const Place& place) {
  const SourceFile& file = project.file(place.file);
  return fmt::format("{}:{}", file.name(), line_number(file.text(), place.from));
}

std::vector<Edit> needed_import(const PythonModule& module, std::string_view name) {
  for (const PythonImport& import : module.imports())
    if (import.at_top && import.name.empty() && import.module == name && import.alias.empty()) return {};
  const std::string_view text = module.tree().source();
  const std::size_t place = import_place(module);
  const std::string ending(line_ending_of(text));
  const bool needs_break = place > 0 && place == text.size() && !text.ends_with('\n');
  return {{place, place, (needs_break ? ending : "") + "import " + std::string(name) + ending}};
}

}  // namespace lockstep
