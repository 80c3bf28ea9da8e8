// Training settings wherever a project keeps them: TrainingArguments in code, YAML of LLaMA-Factory
// and axolotl, JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fix/rule.hpp"
#include "fix/settings/argument_set.hpp"

namespace lockstep {

enum class SettingsKind : std::uint8_t {
  training_arguments,  // the class itself: its fields are known
  subclass,            // SFTConfig, or a class of the project: has fields of its own
  llama_factory,
  axolotl,
  arguments_file,  // JSON or YAML for HfArgumentParser, mixed with other classes' fields
  command_line,    // options for HfArgumentParser, likewise
};

struct TrainingSettings {
  FileId file = 0;
  SettingsKind kind = SettingsKind::training_arguments;
  std::string owner;  // "TrainingArguments", "the LLaMA-Factory settings"
  ArgumentSet arguments;
  const ScriptFacts* script = nullptr;  // the script that uses them, when it is known
  bool defaults_known = true;           // false: a class of the project may have others
};

inline Place place_of(FileId file, TextSpan span) { return {file, span.from(), span.to()}; }

std::vector<TrainingSettings> settings_of_script(const Project& project, const ScriptFacts& script);
// Nothing for a file that holds something else.
std::optional<TrainingSettings> settings_of_file(const Project& project, FileId file);

}  // namespace lockstep
