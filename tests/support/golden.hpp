// Expected results as files. LOCKSTEP_UPDATE_GOLDEN=1 writes them anew: look at the diff before you
// keep it.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep::testing {

bool updates_golden_files();

// Fails where the file's content is another.
void expect_golden(const std::filesystem::path& file, const std::string& content);

}  // namespace lockstep::testing
