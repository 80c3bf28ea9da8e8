#include "fix/project/project.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "base/text.hpp"

namespace lockstep {

namespace fs = std::filesystem;

Project::Project(Contents contents) : contents_(std::move(contents)) {
  auto index = std::make_shared<Index>();
  for (FileId id = 0; id < contents_.files.size(); ++id) {
    index->by_path.emplace(file(id).path().lexically_normal().string(), id);
    index->by_name.emplace(file(id).path().filename().string(), id);
  }
  index_ = std::move(index);
  imports_ = std::make_shared<Imports>(contents_.files.size());
}

const Versions& Project::versions_for(FileId id) const {
  const auto found = contents_.required.find(file(id).path().parent_path());
  return found == contents_.required.end() ? contents_.versions : found->second;
}

std::optional<FileId> Project::at(const fs::path& path) const {
  const auto found = index_->by_path.find(path.lexically_normal().string());
  return found == index_->by_path.end() ? std::nullopt : std::optional(found->second);
}

std::optional<FileId> Project::module(FileId from, std::string_view name) const {
  // A copy of a library in the tree is still the library: what it does is known, and not the
  // project's own.
  static constexpr std::array<std::string_view, 8> kLibraries = {
      "transformers", "torch", "accelerate", "trl", "peft", "deepspeed", "datasets", "diffusers"};
  if (std::ranges::find(kLibraries, name.substr(0, name.find('.'))) != kLibraries.end())
    return std::nullopt;
  fs::path folder = file(from).path().parent_path();
  const bool relative = name.starts_with(".");
  if (relative) {
    name.remove_prefix(1);
    for (; name.starts_with("."); name.remove_prefix(1)) folder = folder.parent_path();
  }
  fs::path inner;
  for (const std::string_view part : split(name, '.')) inner /= std::string(part);
  for (;;) {
    if (const auto found = at((folder / inner).string() + ".py")) return found;
    if (const auto found = at(folder / inner / "__init__.py")) return found;
    if (!relative)
      if (const auto found = at((folder / "src" / inner).string() + ".py")) return found;
    if (relative || folder == contents_.root || !folder.has_relative_path()) return std::nullopt;
    folder = folder.parent_path();
  }
}

std::optional<FileId> Project::script(FileId from, const std::optional<std::string>& folder,
                                      std::string_view name) const {
  const fs::path own = file(from).path().parent_path();
  const bool moved = folder && !folder->empty() && *folder != ".";
  const bool absolute = name.starts_with("/");
  if (moved && !absolute) {
    if (const auto found = at(own / *folder / std::string(name))) return found;
    if (const auto found = at(contents_.root / *folder / std::string(name));
        found && !folder->starts_with("/"))
      return found;
    if (!folder->starts_with("/")) return std::nullopt;
  } else if (!absolute) {
    for (const fs::path& start : {own, contents_.root, own.parent_path()})
      if (const auto found = at(start / std::string(name))) return found;
    if (folder) return std::nullopt;
  } else if (const auto found = at(fs::path(std::string(name)))) {
    return found;
  }
  const auto [first, last] =
      index_->by_name.equal_range(fs::path(std::string(name)).filename().string());
  return first != last && std::next(first) == last ? std::optional(first->second) : std::nullopt;
}

const std::vector<FileId>& Project::imports_of(FileId from) const {
  std::call_once(imports_->once[from], [&] {
    const PythonModule* const module_here = file(from).python();
    if (module_here == nullptr) return;
    std::set<FileId> found;
    const auto add = [&](std::string_view name) {
      if (const auto id = module(from, name); id && found.insert(*id).second)
        imports_->of[from].push_back(*id);
    };
    for (const PythonImport& import : module_here->imports()) {
      add(import.module);
      if (!import.name.empty() && import.name != "*")
        add(import.module.ends_with(".") ? import.module + import.name
                                         : import.module + "." + import.name);
    }
  });
  return imports_->of[from];
}

std::vector<FileId> Project::with_imports(FileId start) const {
  constexpr std::size_t kMostFiles = 200;  // nearest first: what trains is not 200 imports away
  std::vector<FileId> found = {start};
  std::set<FileId> seen = {start};
  for (std::size_t next = 0; next < found.size() && found.size() < kMostFiles; ++next)
    for (const FileId import : imports_of(found[next]))
      if (seen.insert(import).second) found.push_back(import);
  return found;
}

Project Project::with(const std::map<FileId, std::string>& texts) const {
  Contents other = contents_;
  for (const auto& [id, text] : texts)
    other.files[id] = std::make_shared<SourceFile>(file(id).with_text(text));
  return Project(std::move(other), index_, imports_);
}

}  // namespace lockstep
