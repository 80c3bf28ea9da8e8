// torchrun's command line, read as Python's argparse reads it: flags before the script, in full,
// abbreviated, with dashes or underscores, or from PET_* variables; everything after the script
// belongs to the script.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/arguments/launch_settings.hpp"
#include "lockstep/result.hpp"

namespace lockstep {

struct LaunchFlag {
  const char* name;        // --nproc-per-node
  const char* short_name;  // -r, or empty
  const char* value_name;  // empty: a switch; in brackets: it may be left out
  const char* help;
  bool from_environment;  // PET_NPROC_PER_NODE
  Status (*apply)(const std::string& value, LaunchSettings& settings);
};
std::span<const LaunchFlag> launch_flags();

using ReadVariable = std::function<std::optional<std::string>(const std::string& name)>;

// The words after `lockstep launch`. Flags win over the environment.
Result<LaunchSettings> parse_launch_arguments(const std::vector<std::string>& words,
                                              const ReadVariable& variable);

}  // namespace lockstep
