#include "fix/project/installed_versions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/file.hpp"
#include "base/text.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> kPackages = {"transformers", "accelerate", "torch", "trl"};

// The site-packages folders below an environment's root.
std::vector<fs::path> site_packages(const fs::path& environment) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const char* library : {"lib", "lib64", "local/lib"})
    for (const auto& entry : fs::directory_iterator(environment / library, ignored))
      if (entry.path().filename().string().starts_with("python"))
        for (const char* kind : {"site-packages", "dist-packages"})
          if (fs::is_directory(entry.path() / kind, ignored)) found.push_back(entry.path() / kind);
  return found;
}

void add_from_environment(Versions& versions, const fs::path& environment, const std::string& from) {
  std::error_code ignored;
  for (const fs::path& folder : site_packages(environment))
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      const std::string name = entry.path().filename().string();
      if (!name.ends_with(".dist-info")) continue;
      const std::string_view stem = std::string_view(name).substr(0, name.size() - std::string_view(".dist-info").size());
      const auto dash = stem.find('-');
      if (dash == std::string_view::npos || std::find(kPackages.begin(), kPackages.end(), stem.substr(0, dash)) == kPackages.end()) continue;
      if (const auto version = Version::parse(stem.substr(dash + 1))) versions.emplace(std::string(stem.substr(0, dash)), KnownVersion{*version, from, true});
    }
}

// Every line of a requirements file, and every quoted requirement of a project's own tables.
void add_from_requirements(Versions& versions, const fs::path& file) {
  const auto text = read_small_file(file);
  if (!text) return;
  const std::string from = file.filename().string();
  for (std::string_view line : split(*text, '\n')) {
    line = trim(line.substr(0, line.find('#')));
    while (!line.empty() && (line.front() == '"' || line.front() == '\'' || line.front() == '-' || line.front() == ' ')) line.remove_prefix(1);
    if (const auto end = line.find_first_of("\"';"); end != std::string_view::npos) line = line.substr(0, end);
    if (auto found = requirement(line, from)) versions.emplace(std::move(found->first), std::move(found->second));
  }
}

// The environment of the Python that would be started: the folder above the one on the PATH that has it.
std::optional<fs::path> prefix_of_python() {
  const char* const path = std::getenv("PATH");
  std::error_code ignored;
  for (const std::string_view folder : split(path == nullptr ? "" : path, ':'))
    for (const char* name : {"python", "python3"})
      if (!folder.empty() && fs::exists(fs::path(std::string(folder)) / name, ignored)) return fs::path(std::string(folder)).parent_path();
  return std::nullopt;
}

}  // namespace

std::optional<Version> Version::parse(std::string_view text) {
  Version version;
  while (!text.empty()) {
    std::size_t digits = 0;
    while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
    if (digits == 0 || digits > 6) break;
    version.parts.push_back(static_cast<int>(parse_integer(text.substr(0, digits)).value_or(0)));
    text.remove_prefix(digits);
    if (!text.starts_with(".")) break;
    text.remove_prefix(1);
  }
  if (version.parts.empty()) return std::nullopt;
  return version;
}

std::string Version::text() const {
  std::string words;
  for (const int part : parts) words += (words.empty() ? "" : ".") + std::to_string(part);
  return words;
}

std::strong_ordering Version::operator<=>(const Version& other) const {
  for (std::size_t i = 0; i < std::max(parts.size(), other.parts.size()); ++i) {
    const int mine = i < parts.size() ? parts[i] : 0;
    const int theirs = i < other.parts.size() ? other.parts[i] : 0;
    if (mine != theirs) return mine <=> theirs;
  }
  return std::strong_ordering::equal;
}

std::optional<std::pair<std::string, KnownVersion>> requirement(std::string_view line, const std::string& from) {
  const auto end = line.find_first_of("=<>!~ [");
  const std::string_view name = line.substr(0, end);
  if (end == std::string_view::npos || std::find(kPackages.begin(), kPackages.end(), name) == kPackages.end()) return std::nullopt;
  std::string_view rest = trim(line.substr(end));
  if (rest.starts_with("[")) rest = trim(rest.substr(std::min(rest.size(), rest.find(']') + 1)));
  const bool exact = rest.starts_with("==") && rest.find('*') == std::string_view::npos;
  if (!exact && !rest.starts_with(">=") && !rest.starts_with("~=") && !rest.starts_with("==")) return std::nullopt;
  const auto version = Version::parse(trim(rest.substr(2)));
  if (!version) return std::nullopt;
  KnownVersion known{*version, from, exact};
  for (const std::string_view part : split(rest, ','))
    if (trim(part).starts_with("<")) known.at_most = Version::parse(trim(trim(part).substr(trim(part).starts_with("<=") ? 2 : 1)));
  return std::pair(std::string(name), std::move(known));
}

Versions installed_versions(const std::vector<fs::path>& folders) {
  Versions versions;
  std::error_code ignored;
  for (const fs::path& folder : folders)
    for (const char* name : {".venv", "venv", "env", ".env"})
      if (fs::exists(folder / name / "pyvenv.cfg", ignored)) add_from_environment(versions, folder / name, fmt::format("the environment in {}", name));
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const char* const active = std::getenv(variable); active != nullptr && *active != '\0') add_from_environment(versions, active, "the active environment");
  for (const fs::path& folder : folders)
    for (const char* name : {"requirements.txt", "requirements.lock", "pyproject.toml", "setup.py", "setup.cfg", "environment.yml", "environment.yaml"})
      add_from_requirements(versions, folder / name);
  if (const auto prefix = prefix_of_python()) add_from_environment(versions, *prefix, "the Python on the PATH");
  return versions;
}

}  // namespace lockstep
