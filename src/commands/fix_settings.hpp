// What a project says of `lockstep fix` in its pyproject.toml: [tool.lockstep].
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/result.hpp"

namespace lockstep {

struct FixSettings {
  std::string file;  // empty: there is none
  std::vector<std::string> select;
  std::vector<std::string> ignore;
  std::vector<std::string> exclude;
  std::vector<std::pair<std::string, std::vector<std::string>>> per_file_ignores;
};

// Of the nearest pyproject.toml with such a table, from a folder upwards.
Result<FixSettings> fix_settings_of(const std::filesystem::path& folder);

}  // namespace lockstep
