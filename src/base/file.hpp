// Files: read whole with a limit, written whole or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/result.hpp"

namespace lockstep {

// The content, at most `limit` bytes of it; nothing when it cannot be read. For /proc and small
// files.
std::optional<std::string> read_small_file(const std::filesystem::path& path,
                                           std::size_t limit = 1U << 20U);

// The last bytes of a file, at most `limit` of them.
std::optional<std::string> read_end_of_file(const std::filesystem::path& path, std::size_t limit);

// The new content appears under `path` in one step (rename), with what was there before until then.
Status write_file_atomically(const std::filesystem::path& path, std::string_view content);

// The same for content that is made piece by piece and need not fit into memory.
class AtomicFile {
 public:
  static Result<AtomicFile> create(const std::filesystem::path& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();  // without commit() nothing has happened

  void append(std::string_view content);
  Status commit();

 private:
  AtomicFile(std::filesystem::path path, std::string temporary, int file);

  std::filesystem::path path_;
  std::string temporary_;  // empty: a device or a pipe, written in place
  int file_ = -1;
  int error_ = 0;  // the first that happened
};

// Where running processes leave word for lockstep: $XDG_RUNTIME_DIR/lockstep, else a 0700 folder of
// the user's in the temporary folder. It may not be there yet.
std::filesystem::path runtime_folder();

// The folder of the running executable.
std::filesystem::path executable_folder();

// Why a path cannot be opened for reading, as a sentence with a next step.
Error cannot_read(const std::filesystem::path& path, int error_number);

}  // namespace lockstep
