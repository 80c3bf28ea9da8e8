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

Error cannot_copy(const char* what, const fs::path& path, const std::string& why) {
  return Error{fmt::format("cannot {} {}: {}", what, printable(path.string()), why),
               "give a roomy folder for temporary files: TMPDIR=/path lockstep fix --verify ...",
               ErrorKind::cannot_measure};
}

// a checkpoint of a small model; data is larger
constexpr std::uintmax_t kLargestCopied = 16U << 20U;
constexpr std::uintmax_t kMostCopied = 512U << 20U;
constexpr std::size_t kMostEntries = 20'000;

class Mirror {
 public:
  Mirror(const Project& project, const fs::path& from) {
    for (FileId id = 0; id < project.size(); ++id)
      files_[project.file(id).path().lexically_normal()] = &project.file(id);
    for (const auto& [path, file] : files_)
      for (fs::path folder = path.parent_path(); folder != from && folder.has_relative_path();
           folder = folder.parent_path())
        folders_.insert(folder);
  }

  std::map<fs::path, fs::file_time_type> take_links() { return std::move(linked_); }

  Status fill(const fs::path& from, const fs::path& to) {
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(from, failed)) {
      const fs::path name = entry.path().filename();
      if (name == "__pycache__") continue;  // compiled from the other texts
      if (Status put = one(entry, to / name); !put) return put;
    }
    if (failed) return cannot_copy("read", from, failed.message());
    return Done{};
  }

 private:
  Status one(const fs::directory_entry& entry, const fs::path& target) {
    std::error_code error;
    ++entries_;
    const bool ours = folders_.contains(entry.path());
    if (entry.is_symlink(error))
      return link(fs::read_symlink(entry.path(), error).is_absolute()
                      ? fs::read_symlink(entry.path(), error)
                      : entry.path(),
                  target);
    if (entry.is_directory(error)) {
      // Environments and hidden folders are read, not written, and large.
      const bool aside = entry.path().filename().native().starts_with(".") ||
                         entry.path().filename() == "node_modules" ||
                         fs::exists(entry.path() / "pyvenv.cfg", error);
      if (!ours && (aside || entries_ > kMostEntries)) return link(entry.path(), target);
      fs::create_directory(target, error);
      if (error) return cannot_copy("make", target, error.message());
      return fill(entry.path(), target);
    }
    const auto file = files_.find(entry.path());
    const auto text = file != files_.end() ? file->second->disk_text() : std::nullopt;
    if (text) {
      std::ofstream out(target, std::ios::binary);
      out << *text;
      out.close();
      if (!out) return cannot_copy("write", target, std::strerror(errno));
      fs::permissions(target, fs::status(entry.path(), error).permissions(), error);
      return Done{};
    }
    const std::uintmax_t size = entry.is_regular_file(error) ? entry.file_size(error) : kMostCopied;
    if (size > kLargestCopied || copied_ + size > kMostCopied || entries_ > kMostEntries)
      return link(entry.path(), target);
    copied_ += size;
    fs::copy_file(entry.path(), target, error);
    return error ? link(entry.path(), target) : Status(Done{});
  }

  Status link(const fs::path& to, const fs::path& target) {
    std::error_code error;
    fs::create_symlink(to, target, error);
    if (error) return cannot_copy("link", target, error.message());
    if (fs::is_regular_file(to, error))
      if (const auto time = fs::last_write_time(to, error); !error) linked_[to] = time;
    return Done{};
  }

  std::map<fs::path, const SourceFile*> files_;
  std::set<fs::path> folders_;
  std::map<fs::path, fs::file_time_type> linked_;
  std::uintmax_t copied_ = 0;
  std::size_t entries_ = 0;
};

}  // namespace

Result<ShadowTree> ShadowTree::of(const Project& project, const fs::path& folder) {
  std::error_code failed;
  fs::path base = fs::temp_directory_path(failed);
  if (failed) base = "/tmp";
  std::string pattern = (base / "lockstep-verify-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr)
    return cannot_copy("make a folder in", base, std::strerror(errno));
  ShadowTree tree{fs::path(pattern)};
  Mirror mirror(project, folder.lexically_normal());
  TRY(mirror.fill(folder.lexically_normal(), tree.path()));
  tree.linked_ = mirror.take_links();
  return tree;
}

ShadowTree::ShadowTree(ShadowTree&& other) noexcept
    : path_(std::move(other.path_)), linked_(std::move(other.linked_)) {
  other.path_.clear();
}

std::vector<fs::path> ShadowTree::changed_behind_links() const {
  std::vector<fs::path> changed;
  std::error_code error;
  for (const auto& [path, time] : linked_)
    if (fs::last_write_time(path, error) != time || error) changed.push_back(path);
  return changed;
}

ShadowTree::~ShadowTree() {
  if (path_.empty()) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);  // links are removed, not followed
}

}  // namespace lockstep
