// A folder as it would be with the texts of a project: what lockstep read stands there as files of its own, everything else is a link to what is
// there. A command can be run in it as if the patches were applied; what it writes to names that are new is gone with the tree, what it writes
// through a link is written where it always was.
#pragma once

#include <filesystem>

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

 private:
  explicit ShadowTree(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

}  // namespace lockstep
