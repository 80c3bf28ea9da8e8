// A plan of patches as a report: the same findings and fixes as everywhere, with the diffs in them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fix/engine.hpp"
#include "lockstep/report.hpp"

namespace lockstep {

// Of what is on the disk.
std::string diff_between(const SourceFile& before, const SourceFile& after);
// As one diff for `patch -p1`, over all files.
std::string diff_of(const Project& project, const std::map<FileId, std::vector<Edit>>& edits);

Report report_of_plan(const Project& project, const FixPlan& plan);

}  // namespace lockstep
