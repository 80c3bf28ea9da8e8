// A plan of patches as a report: the same findings and fixes as everywhere, with the diffs in them.
#pragma once

#include "fix/engine.hpp"
#include "lockstep/report.hpp"

namespace lockstep {

Report report_of_plan(const Project& project, const FixPlan& plan);

// The fixes of a report that carry a diff, as edits of the files they name.
struct ReportedPatch {
  std::optional<int> group;
  FixSafety safety = FixSafety::manual;
  FindingCode code = FindingCode::taking_turns;
  std::string description;
  std::string diff;
  std::filesystem::path root;
};
Result<std::vector<ReportedPatch>> patches_of_report(const std::string& json_text, const std::string& name);

}  // namespace lockstep
