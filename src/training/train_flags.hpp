// The training settings on a command line: the same flags for `lockstep train` and lockstep-train.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "training/train_settings.hpp"

namespace CLI {
class App;
}

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

// What lockstep-train itself is started with. A usage error names the nearest known flag.
struct TrainLine {
  TrainFlags flags;
  std::string self_test;  // its name, where one is asked for instead of training
  bool list_faults = false;
  std::string help;  // to be printed instead, where it is asked for
};
Result<TrainLine> read_train_line(int argc, const char* const* argv);

}  // namespace lockstep
