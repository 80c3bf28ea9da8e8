// What `lockstep fix` writes and takes back, and what it asks before.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "commands/fix_options.hpp"
#include "fix/write_back.hpp"
#include "render/text/paint.hpp"
#include "runs/run_options.hpp"

namespace lockstep {

// What was written, in words.
void tell_applied(const RunOptions& options, std::size_t patches,
                  const std::vector<FileRewrite>& files);
Status write_files(const std::vector<FileRewrite>& files);
Result<int> undo(const RunOptions& options, const FixOptions& typed);

// Shows each patch and asks: yes, no, all that are left, quit. An end of the answers is quit.
std::set<int> ask_for_each(const Project& project, const FixPlan& plan, Colors colors);

// One fingerprint a line, so that two of them merge.
Result<std::set<std::string>> read_baseline(const std::string& path);
Result<int> write_baseline(const RunOptions& options, const FixOptions& typed,
                           const Project& project, const FixPlan& plan);

}  // namespace lockstep
