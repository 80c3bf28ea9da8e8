// Patches that a report carries, read back and applied.
//
// A report is text that anyone may have written. It changes only files of the kinds that `lockstep
// fix` edits, below the folder that the report names, that read as the diff says, and that still
// parse afterwards; nothing hidden, no link out of the folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "fix/engine.hpp"
#include "fix/write_back.hpp"
#include "lockstep/result.hpp"

namespace lockstep {

struct ReportedPatch {
  std::optional<int> group;
  FixSafety safety = FixSafety::manual;
  FindingCode code = FindingCode::taking_turns;
  std::string description;
  std::string diff;
  std::filesystem::path root;
};
Result<std::vector<ReportedPatch>> patches_of_report(const std::string& json_text,
                                                     const std::string& name);
// The codes of its findings and suspicions; empty for what is no report.
std::vector<FindingCode> codes_in_report(const std::string& json_text);

struct Rewritten {
  std::vector<FileRewrite> files;
  std::size_t patches = 0;
};
// Nothing is written. Patches that change the same lines are made again from the code, one after
// the other.
Result<Rewritten> apply_reported(const std::vector<ReportedPatch>& patches, Apply wanted,
                                 const Wishes& wishes);

}  // namespace lockstep
