// A folder as it would be with the texts of a project: a copy, but for files and folders that are
// too large, which are links to what is there. A command can be run in it as if the patches were
// applied; what it writes is gone with the tree, except through those links.
#pragma once

#include <filesystem>
#include <map>
#include <vector>

#include "fix/project/project.hpp"
#include "lockstep/result.hpp"

namespace lockstep {

class ShadowTree {
 public:
  static Result<ShadowTree> of(const Project& project, const std::filesystem::path& folder);
  ShadowTree(ShadowTree&& other) noexcept;
  ShadowTree& operator=(ShadowTree&&) = delete;
  ~ShadowTree();

  const std::filesystem::path& path() const { return path_; }
  // Files behind links that are not what they were when the tree was made.
  std::vector<std::filesystem::path> changed_behind_links() const;

 private:
  explicit ShadowTree(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
  std::map<std::filesystem::path, std::filesystem::file_time_type> linked_;
};

}  // namespace lockstep
