// The training settings on a command line: the same flags for `lockstep train` and lockstep-train.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "training/train_settings.hpp"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace lockstep {

struct TrainFlags {
  std::string config;  // a file
  std::string preset;
  bool print_config = false;
  std::vector<std::pair<std::string, std::string>> typed;  // settings by name, in the order typed
};
void add_train_flags(CLI::App& app, TrainFlags& flags);

// Defaults, then the preset, the config file, and the flags. `given`: the names that the user set,
// wherever.
Result<TrainSettings> settings_from(const TrainFlags& flags,
                                    std::vector<std::string>* given = nullptr);

// CLI11's complaint in our words, with the nearest known flag.
Error explain_flags(const CLI::ParseError& problem, const CLI::App& app,
                    const std::vector<std::string>& words);

}  // namespace lockstep
