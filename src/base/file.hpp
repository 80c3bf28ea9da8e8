// Files: read whole with a limit, written whole or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/result.hpp"

namespace lockstep {

// The content, at most `limit` bytes of it; nothing when it cannot be read. For /proc and small files.
std::optional<std::string> read_small_file(const std::filesystem::path& path, std::size_t limit = 1U << 20U);

// The last bytes of a file, at most `limit` of them.
std::optional<std::string> read_end_of_file(const std::filesystem::path& path, std::size_t limit);

// The new content appears under `path` in one step (rename), with what was there before until then.
Status write_file_atomically(const std::filesystem::path& path, std::string_view content);

// Where running processes leave word for lockstep: $XDG_RUNTIME_DIR/lockstep, else a 0700 folder of the user's in the
// temporary folder. It may not be there yet.
std::filesystem::path runtime_folder();

// The folder of the running executable.
std::filesystem::path executable_folder();

// Why a path cannot be opened for reading, as a sentence with a next step.
Error cannot_read(const std::filesystem::path& path, int error_number);

}  // namespace lockstep
