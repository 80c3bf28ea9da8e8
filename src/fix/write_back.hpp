// Writes patched files, all or none, and takes them back exactly.
//
// What was there before is kept first, in $XDG_STATE_HOME/lockstep/undo (nothing in the user's
// tree), then each new text is written beside its file and synced, and only when all of them are on
// the disk are they renamed into place. A power cut in between leaves every file whole, old or new,
// and the record knows both.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/result.hpp"

namespace lockstep {

struct FileRewrite {
  std::filesystem::path path;
  std::string before;  // refused when the file no longer reads so
  std::string after;
};

Result<std::filesystem::path> undo_folder();

Status write_back(const std::vector<FileRewrite>& files, const std::filesystem::path& undo);

// What undo_newest would bring back: each file as it is now, and as it was. Empty: nothing.
std::vector<FileRewrite> newest_applied(const std::filesystem::path& undo,
                                        const std::vector<std::filesystem::path>& paths);

// The newest record that has a file at or below one of the paths (none given: the newest of all).
// What was restored.
Result<std::vector<std::filesystem::path>> undo_newest(
    const std::filesystem::path& undo, const std::vector<std::filesystem::path>& paths);

}  // namespace lockstep
