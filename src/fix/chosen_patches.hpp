// What becomes of a plan's patches beside applying all of one safety: some by their number, as one
// diff, as files to write.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fix/engine.hpp"
#include "fix/write_back.hpp"
#include "lockstep/result.hpp"

namespace lockstep {

// The texts with exactly these patches. Numbers that are none, and patches that change the same
// lines, are told.
Result<Patched> apply_numbers(const Project& project, const FixPlan& plan,
                              const std::set<int>& numbers);

// "1,3-5" as numbers. Nothing: it is not such a list.
std::optional<std::set<int>> patch_numbers(std::string_view text);

// All changed files as one diff for `patch -p1` in the folder that names are shown from.
std::string diff_of_texts(const Project& project, const std::map<FileId, std::string>& texts);
// The same for writing: what is on the disk, and what belongs there.
std::vector<FileRewrite> rewrites(const Project& before, const Project& after);

}  // namespace lockstep
