// Which versions of the packages that matter a project runs with, read from files: no Python is
// started.
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
  bool operator==(const Version& other) const {
    return (*this <=> other) == std::strong_ordering::equal;
  }
};

// What is known of an installed version: itself, or the range that a requirement allows.
struct KnownVersion {
  Version version;                              // the least that is allowed
  std::string from;                             // "requirements.txt", "the environment in .venv"
  bool exact = true;                            // false: a range
  std::optional<Version> below = std::nullopt;  // the first that is not allowed any more
  bool unknown = false;  // pinned to a commit: which version that is only its repository knows

  bool allows(const Version& candidate) const {
    return exact ? candidate == version : !(candidate < version) && (!below || candidate < *below);
  }
};

using Versions = std::map<std::string, KnownVersion, std::less<>>;

// Of transformers, accelerate, torch, trl and Lightning. Who speaks first: an environment within
// one of the folders or the active one; a pin in the requirements nearest to a file; the Python on
// the PATH.
Versions environment_of(const std::vector<std::filesystem::path>& folders);
Versions required_versions(const std::filesystem::path& folder);
Versions versions_on_path();

// One line of a requirements file or of a project table: transformers==4.44.2,
// "transformers>=4.40,<5".
std::optional<std::pair<std::string, KnownVersion>> requirement(std::string_view line,
                                                                const std::string& from);

}  // namespace lockstep
