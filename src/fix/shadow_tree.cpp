#include "fix/shadow_tree.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <set>

#include "base/text.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

Error cannot(const char* what, const fs::path& path, const std::string& why) {
  return Error{fmt::format("cannot {} {}: {}", what, printable(path.string()), why), "give a roomy folder for temporary files: TMPDIR=/path lockstep fix --verify ...", ErrorKind::cannot_measure};
}

// Folders on the way to a file of the project are made anew, all others are links.
class Mirror {
 public:
  Mirror(const Project& project, const fs::path& from) {
    for (FileId id = 0; id < project.size(); ++id) {
      const fs::path path = project.file(id).path().lexically_normal();
      const fs::path below = path.lexically_relative(from);
      if (below.empty() || below.native().starts_with("..") || !project.file(id).cells().empty()) continue;  // of a notebook only the code was read
      files_[path] = &project.file(id);
      for (fs::path folder = path.parent_path(); folder != from && folder.has_relative_path(); folder = folder.parent_path()) folders_.insert(folder);
    }
  }

  Status fill(const fs::path& from, const fs::path& to) const {
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(from, failed)) {
      const fs::path name = entry.path().filename();
      if (name == "__pycache__") continue;  // compiled from the other texts
      const fs::path target = to / name;
      std::error_code error;
      if (folders_.contains(entry.path()) && !entry.is_symlink(error)) {
        fs::create_directory(target, error);
        if (error) return cannot("make", target, error.message());
        if (Status filled = fill(entry.path(), target); !filled) return filled;
      } else if (const auto file = files_.find(entry.path()); file != files_.end()) {
        std::ofstream out(target, std::ios::binary);
        out << file->second->text();
        out.close();
        if (!out) return cannot("write", target, std::strerror(errno));
        fs::permissions(target, fs::status(entry.path(), error).permissions(), error);
      } else {
        fs::create_symlink(entry.path(), target, error);
        if (error) return cannot("link", target, error.message());
      }
    }
    if (failed) return cannot("read", from, failed.message());
    return Done{};
  }

 private:
  std::map<fs::path, const SourceFile*> files_;
  std::set<fs::path> folders_;
};

}  // namespace

Result<ShadowTree> ShadowTree::of(const Project& project, const fs::path& folder) {
  std::error_code failed;
  fs::path base = fs::temp_directory_path(failed);
  if (failed) base = "/tmp";
  std::string pattern = (base / "lockstep-verify-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) return cannot("make a folder in", base, std::strerror(errno));
  ShadowTree tree{fs::path(pattern)};
  if (Status filled = Mirror(project, folder.lexically_normal()).fill(folder.lexically_normal(), tree.path()); !filled) return std::move(filled).error();
  return tree;
}

ShadowTree::ShadowTree(ShadowTree&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }

ShadowTree::~ShadowTree() {
  if (path_.empty()) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);  // links are removed, not followed
}

}  // namespace lockstep
