// Which versions of the packages that matter a project runs with, read from files: no Python is started.
#pragma once

#include <compare>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// "4.44.2", "5.0.0rc1" as numbers; what follows them is left out.
struct Version {
  std::vector<int> parts;

  static std::optional<Version> parse(std::string_view text);
  std::string text() const;
  std::strong_ordering operator<=>(const Version& other) const;
  bool operator==(const Version& other) const { return (*this <=> other) == std::strong_ordering::equal; }
};

struct KnownVersion {
  Version version;
  std::string from;  // "requirements.txt", "the environment in .venv"
  bool exact = true;  // false: the least that a requirement allows
  std::optional<Version> at_most = std::nullopt;  // what a requirement ends with
};

using Versions = std::map<std::string, KnownVersion, std::less<>>;

// Of transformers, accelerate, torch, trl: an environment within one of the folders, the active one, a pin in the project's
// requirements, the Python on the PATH. The first that knows a package speaks for it.
Versions installed_versions(const std::vector<std::filesystem::path>& folders);

// One line of a requirements file or of a project table: transformers==4.44.2, "transformers>=4.40,<5".
std::optional<std::pair<std::string, KnownVersion>> requirement(std::string_view line, const std::string& from);

}  // namespace lockstep
