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

constexpr std::array<std::string_view, 7> kPackages = {
    "transformers",      "accelerate",       "torch", "trl", "lightning",
    "pytorch_lightning", "pytorch-lightning"};

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

void add_from_environment(Versions& versions, const fs::path& environment,
                          const std::string& from) {
  std::error_code ignored;
  for (const fs::path& folder : site_packages(environment))
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      const std::string name = entry.path().filename().string();
      if (!name.ends_with(".dist-info")) continue;
      const std::string_view stem =
          std::string_view(name).substr(0, name.size() - std::string_view(".dist-info").size());
      const auto dash = stem.find('-');
      if (dash == std::string_view::npos ||
          std::ranges::find(kPackages, stem.substr(0, dash)) == kPackages.end())
        continue;
      if (const auto version = Version::parse(stem.substr(dash + 1)))
        versions.emplace(std::string(stem.substr(0, dash)), KnownVersion{*version, from, true});
    }
}

bool is_dockers(const std::string& name) {
  return name.starts_with("Dockerfile") || name.ends_with(".dockerfile");
}

// Every line of a requirements file, what a Dockerfile installs, and every quoted requirement of a
// project's own tables.
void add_from_requirements(Versions& versions, const fs::path& file) {
  std::error_code failed;
  if (!fs::is_regular_file(file, failed)) return;  // a pipe of that name would wait for a writer
  auto text = read_small_file(file);
  if (!text) return;
  // what PowerShell's `pip freeze >` writes
  if (text->starts_with("\xFF\xFE"))
    std::erase_if(*text,
                  [](char byte) { return byte == '\0' || byte == '\xFF' || byte == '\xFE'; });
  const std::string from = file.filename().string();
  const bool file_is_dockers = is_dockers(from);
  for (std::string_view line : split(*text, '\n')) {
    line = trim(line.substr(0, line.find('#')));
    while (!line.empty() && (line.front() == '"' || line.front() == '\'' || line.front() == '-' ||
                             line.front() == ' '))
      line.remove_prefix(1);
    if (file_is_dockers) {  // RUN pip install transformers==4.33.2 datasets
      for (const std::string_view word : split(line, ' '))
        if (auto found = requirement(trim(word), from))
          versions.emplace(std::move(found->first), std::move(found->second));
      continue;
    }
    if (const auto end = line.find_first_of("\"';"); end != std::string_view::npos)
      line = line.substr(0, end);
    if (auto found = requirement(line, from))
      versions.emplace(std::move(found->first), std::move(found->second));
  }
}

// The environment of the Python that would be started: the folder above the one on the PATH that
// has it.
std::optional<fs::path> prefix_of_python() {
  const char* const path = std::getenv("PATH");
  std::error_code ignored;
  for (const std::string_view folder : split(path == nullptr ? "" : path, ':'))
    for (const char* name : {"python", "python3"})
      if (!folder.empty() && fs::exists(fs::path(std::string(folder)) / name, ignored))
        return fs::path(std::string(folder)).parent_path();
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

namespace {
// The next one of the same length: 4.45 gives 4.46.
Version after(Version version) {
  ++version.parts.back();
  return version;
}
}  // namespace

std::optional<std::pair<std::string, KnownVersion>> requirement(std::string_view line,
                                                                const std::string& from) {
  const auto end = line.find_first_of("=<>!~ [@");
  const std::string_view name = line.substr(0, end);
  if (end == std::string_view::npos || std::ranges::find(kPackages, name) == kPackages.end())
    return std::nullopt;
  std::string_view rest = trim(line.substr(end));
  if (rest.starts_with("[")) rest = trim(rest.substr(std::min(rest.size(), rest.find(']') + 1)));
  KnownVersion known{{{0}}, from, false};
  if (rest.starts_with("@")) {
    known.unknown = true;
    return std::pair(std::string(name), std::move(known));
  }
  bool any = false;
  for (std::string_view clause : split(rest, ',')) {
    clause = trim(clause);
    const auto digits = clause.find_first_of("0123456789");
    if (digits == std::string_view::npos) continue;
    const std::string_view sign = trim(clause.substr(0, digits));
    auto version = Version::parse(clause.substr(digits));
    if (!version) continue;
    any = any || sign != "!=";
    if ((sign == "==" || sign == "===") && clause.find('*') == std::string_view::npos)
      return std::pair(std::string(name), KnownVersion{*version, from, true});
    if (sign == ">=" || sign == ">")
      known.version = *version;
    else if (sign == "<")
      known.below = *version;
    else if (sign == "<=")
      known.below = after(*version);
    else if (sign == "==" || sign == "=") {  // 4.45.*, and conda's 4.45
      known.version = *version;
      known.below = after(*version);
    } else if (sign == "~=") {
      known.version = *version;
      if (version->parts.size() > 1) version->parts.pop_back();
      known.below = after(*version);
    }
  }
  if (!any) return std::nullopt;
  return std::pair(std::string(name), std::move(known));
}

Versions required_versions(const fs::path& folder) {
  Versions versions;
  std::error_code ignored;
  std::vector<fs::path> files;
  for (const auto& entry :
       fs::directory_iterator(folder, fs::directory_options::skip_permission_denied, ignored)) {
    const std::string name = entry.path().filename().string();
    const bool requirements =
        name.starts_with("requirements") &&
        (name.ends_with(".txt") || name.ends_with(".lock") || name.ends_with(".in"));
    // conda list --export, pip freeze
    const bool listed = name.ends_with(".txt") && (name.find("package") != std::string::npos ||
                                                   name.find("freeze") != std::string::npos ||
                                                   name.find("conda") != std::string::npos);
    if (requirements || listed || is_dockers(name) || name == "pyproject.toml" ||
        name == "setup.py" || name == "setup.cfg" ||
        (name.find("env") != std::string::npos &&
         (name.ends_with(".yml") || name.ends_with(".yaml"))))
      files.push_back(entry.path());
  }
  std::ranges::sort(files, [](const fs::path& a, const fs::path& b) {
    return std::pair(a.filename() != "requirements.txt", a) <
           std::pair(b.filename() != "requirements.txt", b);
  });
  for (const fs::path& file : files) add_from_requirements(versions, file);
  return versions;
}

Versions environment_of(const std::vector<fs::path>& folders) {
  Versions versions;
  std::error_code ignored;
  for (const fs::path& folder : folders)
    for (const char* name : {".venv", "venv", "env", ".env"})
      if (fs::exists(folder / name / "pyvenv.cfg", ignored))
        add_from_environment(versions, folder / name, fmt::format("the environment in {}", name));
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const char* const active = std::getenv(variable); active != nullptr && *active != '\0')
      add_from_environment(versions, active, "the active environment");
  return versions;
}

Versions versions_on_path() {
  Versions versions;
  if (const auto prefix = prefix_of_python())
    add_from_environment(versions, *prefix, "the Python on the PATH");
  return versions;
}

}  // namespace lockstep
