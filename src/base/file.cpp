#include "base/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/text.hpp"

namespace lockstep {

namespace {

// From where the file stands to its end or the limit; closes it.
std::optional<std::string> read_and_close(int file, std::size_t limit) {
  std::string content;
  std::array<char, 16384> block;  // left uninitialised: read() fills what is used
  while (content.size() < limit) {
    const auto wanted = std::min(block.size(), limit - content.size());
    const ssize_t got = ::read(file, block.data(), wanted);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      ::close(file);
      return std::nullopt;
    }
    if (got == 0) break;
    content.append(block.data(), static_cast<std::size_t>(got));
  }
  ::close(file);
  return content;
}

}  // namespace

std::optional<std::string> read_small_file(const std::filesystem::path& path, std::size_t limit) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  return read_and_close(file, limit);
}

std::optional<std::string> read_end_of_file(const std::filesystem::path& path, std::size_t limit) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  if (const off_t size = ::lseek(file, 0, SEEK_END); size >= 0)
    ::lseek(file, std::max<off_t>(0, size - static_cast<off_t>(limit)), SEEK_SET);
  return read_and_close(file, limit);
}

namespace {
Error cannot_write(const std::filesystem::path& path, int error_number) {
  return usage_error(
      fmt::format("cannot write {}: {}", printable(path.string()), std::strerror(error_number)),
      "choose a folder you may write to, with free space");
}

bool write_all(int file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(file, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}
}  // namespace

Result<AtomicFile> AtomicFile::create(const std::filesystem::path& name) {
  struct stat facts{};
  const bool exists = ::stat(name.c_str(), &facts) == 0;
  if (exists && !S_ISREG(facts.st_mode) && !S_ISDIR(facts.st_mode)) {
    // A device, a pipe, /dev/stdout: there is nothing to replace, and a rename would put a plain
    // file in its place.
    const int file = ::open(name.c_str(), O_WRONLY | O_CLOEXEC);
    if (file < 0) return cannot_write(name, errno);
    return AtomicFile(name, "", file);
  }
  // Through a link the file behind it is replaced, and the link stays.
  std::error_code unresolved;
  const auto resolved = std::filesystem::canonical(name, unresolved);
  const std::filesystem::path path = unresolved ? name : resolved;
  std::string temporary = path.string() + ".XXXXXX";
  const int file = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (file < 0) return cannot_write(path, errno);
  return AtomicFile(path, std::move(temporary), file);
}

AtomicFile::AtomicFile(std::filesystem::path path, std::string temporary, int file)
    : path_(std::move(path)), temporary_(std::move(temporary)), file_(file) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      file_(std::exchange(other.file_, -1)),
      error_(other.error_) {}

AtomicFile::~AtomicFile() {
  if (file_ >= 0) ::close(file_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::append(std::string_view content) {
  if (error_ == 0 && !write_all(file_, content)) error_ = errno;
}

Status AtomicFile::commit() {
  if (!temporary_.empty() && error_ == 0) {
    const mode_t mask = ::umask(0);
    ::umask(mask);
    if (::fchmod(file_, 0666 & ~mask) != 0 || ::fsync(file_) != 0 ||
        ::rename(temporary_.c_str(), path_.c_str()) != 0)
      error_ = errno;
    else
      temporary_.clear();
  }
  return error_ == 0 ? Status(Done{}) : Status(cannot_write(path_, error_));
}

Status write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  auto file = TRY(AtomicFile::create(path));
  file.append(content);
  return file.commit();
}

std::filesystem::path runtime_folder() {
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime != '\0') return std::filesystem::path(runtime) / "lockstep";
  const char* const temporary = std::getenv("TMPDIR");
  const std::filesystem::path base =
      temporary != nullptr && *temporary != '\0' ? temporary : "/tmp";
  return base / ("lockstep-" + std::to_string(::getuid()));
}

std::filesystem::path executable_folder() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
}

Error cannot_read(const std::filesystem::path& path, int error_number) {
  const std::string name = printable(path.string());
  switch (error_number) {
    case ENOENT:
      return {fmt::format("no such file: {}", name),
              "check the path; live input needs none, and `virtual:2` is two virtual GPUs"};
    case EACCES:
      return {fmt::format("cannot read {}: permission denied", name),
              "check who owns the file: ls -l"};
    case EISDIR:
      return {fmt::format("{} is a folder, not a recording or log", name),
              fmt::format("name files inside it: {}/*", name)};
    default:
      return {fmt::format("cannot read {}: {}", name, std::strerror(error_number)),
              "check the file and its disk"};
  }
}

}  // namespace lockstep
