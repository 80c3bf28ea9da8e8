#include "fix/write_back.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "base/text.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestPatched = 64U << 20U;
constexpr std::size_t kRecordsKept = 50;

Error cannot(std::string_view verb, const fs::path& path, int error_number) {
  return {fmt::format("cannot {} {}: {}; nothing was changed", verb, printable(path.string()),
                      std::strerror(error_number)),
          "check the folder's permissions and the space on its disk, then run this again",
          ErrorKind::cannot_measure};
}

bool write_synced(int file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(file, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return ::fsync(file) == 0;
}

void sync_folder(const fs::path& folder) {
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  ::fsync(file);
  ::close(file);
}

constexpr const char* kAccessList = "system.posix_acl_access";

std::vector<std::string> attributes_of(const fs::path& path) {
  std::vector<char> names(64U << 10U);  // the kernel gives no more than this
  const ssize_t size = ::llistxattr(path.c_str(), names.data(), names.size());
  std::vector<std::string> found;
  for (const char* name = names.data(); size > 0 && name < names.data() + size;
       name += std::strlen(name) + 1)
    found.emplace_back(name);
  return found;
}

// Access lists and whatever else belongs to the file. What only the administrator may set is left
// to the system, which gives a new file its own.
bool keep_attributes(const fs::path& path, int file) {
  const std::vector<std::string> names = attributes_of(path);
  // A folder may give its new files an access list that this one does not have.
  if (std::ranges::find(names, kAccessList) == names.end()) ::fremovexattr(file, kAccessList);
  std::vector<char> value(64U << 10U);
  for (const std::string& name : names) {
    const ssize_t size = ::lgetxattr(path.c_str(), name.c_str(), value.data(), value.size());
    if (size < 0) continue;
    const bool is_kept =
        ::fsetxattr(file, name.c_str(), value.data(), static_cast<std::size_t>(size), 0) == 0;
    if (!is_kept && (name == kAccessList || name.starts_with("user."))) return false;
  }
  return true;
}

// A new text beside its file, with the file's mode, owner and attributes, waiting to be renamed.
class Prepared {
 public:
  static Result<Prepared> beside(const fs::path& path, std::string_view content) {
    struct stat facts{};
    if (::lstat(path.c_str(), &facts) != 0) return cannot("read", path, errno);
    if (!S_ISREG(facts.st_mode) || facts.st_nlink > 1)
      return Error{fmt::format("{} {}; nothing was changed", printable(path.string()),
                               S_ISREG(facts.st_mode)
                                   ? "has another name by a hard link, which a rename would part"
                                   : "is no regular file"),
                   "copy it to a file of its own, or apply the diff by hand",
                   ErrorKind::cannot_measure};
    if (::access(path.c_str(), W_OK) != 0) return cannot("write", path, errno);
    std::string name = path.string() + ".lockstep-XXXXXX";
    const int file = ::mkostemp(name.data(), O_CLOEXEC);
    if (file < 0) return cannot("write beside", path, errno);
    const bool owned = ::fchown(file, facts.st_uid, facts.st_gid) == 0 || errno == EPERM;
    const bool written = owned && keep_attributes(path, file) &&
                         ::fchmod(file, facts.st_mode & 07777) == 0 && write_synced(file, content);
    const int error_number = errno;
    ::close(file);
    if (!written) {
      ::unlink(name.c_str());
      return cannot("write", path, error_number);
    }
    return Prepared(path, std::move(name));
  }

  Prepared(Prepared&& other) noexcept
      : path_(std::move(other.path_)),
        name_(std::exchange(other.name_, "")),
        kept_(std::exchange(other.kept_, "")) {}
  Prepared& operator=(Prepared&&) = delete;
  ~Prepared() {
    if (!name_.empty()) ::unlink(name_.c_str());
    if (!kept_.empty()) ::unlink(kept_.c_str());
  }

  // The old file stays at hand under another name: a link takes no space, so that going back cannot
  // fail for want of it.
  Status put() {
    std::string kept = name_ + ".old";
    if (::link(path_.c_str(), kept.c_str()) == 0) kept_ = std::move(kept);
    if (::rename(name_.c_str(), path_.c_str()) != 0) return cannot("replace", path_, errno);
    name_.clear();
    return Done{};
  }
  // Whether the old text is in place again.
  bool take_back(std::string_view before) {
    if (!kept_.empty() && ::rename(kept_.c_str(), path_.c_str()) == 0) {
      kept_.clear();
      return true;
    }
    auto again = beside(path_, before);  // where links cannot be made
    return again && static_cast<bool>(again->put());
  }

 private:
  Prepared(fs::path path, std::string name) : path_(std::move(path)), name_(std::move(name)) {}

  fs::path path_;
  std::string name_;  // the new text; empty once it is in place
  std::string kept_;  // the old file
};

// All of them, or none. `parted` becomes true where a disk fails so badly that some are new and
// some old.
Status replace_all(const std::vector<FileRewrite>& files, bool& parted) {
  std::vector<Prepared> prepared;
  for (const FileRewrite& file : files) {
    auto one = TRY(Prepared::beside(file.path, file.after));
    prepared.push_back(std::move(one));
  }
  for (const FileRewrite& file : files)
    if (const auto now = read_small_file(file.path, kLargestPatched); now != file.before)
      return Error{fmt::format("{} has changed since it was read; nothing was changed",
                               printable(file.path.string())),
                   "run lockstep fix again: it will look at the file as it is now",
                   ErrorKind::cannot_measure};
  for (std::size_t i = 0; i < prepared.size(); ++i)
    if (Status put = prepared[i].put(); !put) {
      for (std::size_t done = 0; done < i; ++done)
        parted = !prepared[done].take_back(files[done].before) || parted;
      return put;
    }
  for (const FileRewrite& file : files) sync_folder(file.path.parent_path());
  return Done{};
}

Status keep_file(const fs::path& path, std::string_view content) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return cannot("keep the old text in", path, errno);
  const bool written = write_synced(file, content);
  const int error_number = errno;
  ::close(file);
  return written ? Status(Done{}) : Status(cannot("keep the old text in", path, error_number));
}

// One lockstep at a time.
class Lock {
 public:
  explicit Lock(const fs::path& folder)
      : file_(::open((folder / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) {
    if (file_ >= 0) ::flock(file_, LOCK_EX);
  }
  bool held() const { return file_ >= 0; }
  ~Lock() {
    if (file_ >= 0) ::close(file_);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int file_;
};

std::vector<fs::path> records_in(const fs::path& undo) {
  std::vector<fs::path> records;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(undo, failed))
    if (entry.is_directory(failed) && fs::exists(entry.path() / "record.json", failed))
      records.push_back(entry.path());
  std::ranges::sort(records);
  return records;
}

Result<fs::path> keep_record(const std::vector<FileRewrite>& files, const fs::path& undo) {
  const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  const fs::path folder = undo / fmt::format("{:020d}-{}", now, ::getpid());
  if (::mkdir(folder.c_str(), 0700) != 0) return cannot("make", folder, errno);
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string name = files[i].path.string();  // bytes: a name need not be UTF-8
    for (const auto& [ending, content] :
         {std::pair<const char*, const std::string&>{"before", files[i].before},
          {"after", files[i].after},
          {"path", name}})
      if (Status kept = keep_file(folder / fmt::format("{}.{}", i, ending), content); !kept) {
        std::error_code ignored;
        fs::remove_all(folder, ignored);
        return std::move(kept).error();
      }
  }
  const std::string record = nlohmann::json{{"lockstep_undo", 1}, {"files", files.size()}}.dump();
  if (Status kept = keep_file(folder / "record.json", record); !kept) {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    return std::move(kept).error();
  }
  sync_folder(folder);
  return folder;
}

Result<std::vector<FileRewrite>> read_record(const fs::path& folder) {
  const auto text = read_small_file(folder / "record.json");
  const auto json = text ? nlohmann::json::parse(*text, nullptr, false) : nlohmann::json();
  const Error broken{
      fmt::format("the undo record {} cannot be read", printable(folder.string())),
      "its *.before files hold the old texts: copy them back by hand, then remove the folder",
      ErrorKind::cannot_measure};
  if (!json.is_object() || !json.contains("files") || !json["files"].is_number_unsigned())
    return broken;
  std::vector<FileRewrite> files;
  for (std::size_t i = 0; i < json["files"].get<std::size_t>(); ++i) {
    auto before = read_small_file(folder / fmt::format("{}.before", i), kLargestPatched);
    auto after = read_small_file(folder / fmt::format("{}.after", i), kLargestPatched);
    auto path = read_small_file(folder / fmt::format("{}.path", i));
    if (!before || !after || !path) return broken;
    files.push_back({*path, std::move(*after), std::move(*before)});  // backwards
  }
  return files;
}

bool concerns(const std::vector<FileRewrite>& files, const std::vector<fs::path>& paths) {
  return paths.empty() || std::ranges::any_of(files, [&](const FileRewrite& file) {
           return std::ranges::any_of(paths, [&](const fs::path& path) {
             const std::string below = file.path.lexically_relative(path).string();
             return !below.empty() && !below.starts_with("..");
           });
         });
}

}  // namespace

Result<fs::path> undo_folder() {
  const char* const state = std::getenv("XDG_STATE_HOME");
  const char* const home = std::getenv("HOME");
  if (state != nullptr && *state != '\0') return fs::path(state) / "lockstep" / "undo";
  if (home == nullptr || *home == '\0')
    return usage_error(
        "there is no place for what --undo needs: neither XDG_STATE_HOME nor HOME is set",
        "set XDG_STATE_HOME to a folder of your own");
  return fs::path(home) / ".local" / "state" / "lockstep" / "undo";
}

Status write_back(const std::vector<FileRewrite>& files, const fs::path& undo) {
  if (files.empty()) return Done{};
  std::error_code failed;
  fs::create_directories(undo, failed);
  if (failed) return cannot("make", undo, failed.value());
  fs::permissions(undo, fs::perms::owner_all, failed);
  const Lock lock(undo);
  if (!lock.held()) return cannot("lock", undo, errno);
  auto record = TRY(keep_record(files, undo));
  bool parted = false;
  if (Status replaced = replace_all(files, parted); !replaced) {
    if (parted)
      return Error{fmt::format("{}; not all files could be put back", replaced.error().what),
                   fmt::format("the old texts are in {}: copy its *.before files back",
                               printable(record.string())),
                   ErrorKind::cannot_measure};
    fs::remove_all(record, failed);
    return replaced;
  }
  auto records = records_in(undo);
  while (records.size() > kRecordsKept) {
    fs::remove_all(records.front(), failed);
    records.erase(records.begin());
  }
  return Done{};
}

std::vector<FileRewrite> newest_applied(const fs::path& undo, const std::vector<fs::path>& paths) {
  auto records = records_in(undo);
  std::ranges::reverse(records);
  for (const fs::path& record : records) {
    auto files = read_record(record);
    if (!files || !concerns(*files, paths)) continue;
    const bool as_applied = std::ranges::all_of(*files, [](const FileRewrite& file) {
      return read_small_file(file.path, kLargestPatched) == file.before;
    });
    return as_applied ? std::move(*files) : std::vector<FileRewrite>{};
  }
  return {};
}

Result<std::vector<fs::path>> undo_newest(const fs::path& undo,
                                          const std::vector<fs::path>& paths) {
  std::error_code failed;
  if (!fs::is_directory(undo, failed))
    return usage_error("there is nothing to undo",
                       "lockstep fix --apply keeps what it changes; nothing was applied yet");
  const Lock lock(undo);
  if (!lock.held()) return cannot("lock", undo, errno);
  auto records = records_in(undo);
  std::ranges::reverse(records);
  for (const fs::path& record : records) {
    auto files = read_record(record);
    if (!files) {
      if (paths.empty()) return std::move(files).error();
      continue;
    }
    if (!concerns(*files, paths)) continue;
    std::vector<fs::path> restored;
    std::vector<FileRewrite> needed;
    for (FileRewrite& file : *files) {
      const auto now = read_small_file(file.path, kLargestPatched);
      if (now != file.before && now != file.after)
        return Error{fmt::format("{} {}; nothing was changed", printable(file.path.string()),
                                 now ? "has changed since it was patched" : "is no longer there"),
                     fmt::format("the old texts are in {}: compare by hand; remove that folder to "
                                 "go on to older ones",
                                 printable(record.string())),
                     ErrorKind::cannot_measure};
      restored.push_back(file.path);
      // after a power cut some files may be the old ones still
      if (now != file.after) needed.push_back(std::move(file));
    }
    bool parted = false;
    TRY(replace_all(needed, parted));
    fs::remove_all(record, failed);
    return restored;
  }
  if (paths.empty())
    return usage_error("there is nothing to undo", "every --apply was taken back already");
  return usage_error("there is nothing to undo there",
                     "lockstep fix --undo without a path takes the newest back");
}

}  // namespace lockstep
