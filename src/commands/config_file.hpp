// The user's defaults: $XDG_CONFIG_HOME/lockstep/config.json, or the file named by --config.
#pragma once

#include <filesystem>

#include "lockstep/result.hpp"

namespace lockstep {

struct RawOptions;

// The file that holds them; empty where the user has no home.
std::filesystem::path config_path(const RawOptions& raw);

// Fills in what was not typed. No file is fine, unless it was named; an unknown key is an error.
Status fill_from_config(RawOptions& raw);

}  // namespace lockstep
