// From a project to patches: runs the rules, groups what belongs together, and lets a patch stand
// only when the patched project shows that it helps.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fix/rule.hpp"

namespace lockstep {

// Edits that are applied together or not at all.
struct PatchGroup {
  int number = 0;
  std::vector<std::size_t> findings;  // positions in FixPlan::findings
  FixSafety safety = FixSafety::manual;
  std::map<FileId, std::vector<Edit>> edits;  // in order
};

struct FixPlan {
  std::vector<CodeFinding> findings;
  std::vector<PatchGroup> groups;
  std::vector<Refusal> refusals;
  std::size_t unread = 0;    // files that were asked for and that the parser could not read
  std::size_t left_out = 0;  // findings that --select, --ignore or a comment keeps away
};

struct CodeFilter {
  std::set<FindingCode> select;  // empty: all
  std::set<FindingCode> ignore;
  // in files whose name fits: a glob, from the folder that names are shown from
  std::vector<std::pair<std::string, std::set<FindingCode>>> per_file;
  std::set<std::string> known;  // fingerprints: a baseline's
};

// What stays the same of a finding when lines above it come and go.
std::string fingerprint_of(const Project& project, const CodeFinding& finding);

FixPlan plan_fixes(const Project& project, const Wishes& wishes, const CodeFilter& filter);

enum class Apply : std::uint8_t { safe, safe_and_unsafe };

// The texts after all groups of the wanted safety; groups in each other's way are done one after
// the other, over a new plan.
struct Patched {
  std::map<FileId, std::string> texts;
  std::size_t applied = 0;
};
Patched apply_in_memory(const Project& project, const FixPlan& plan, const Wishes& wishes,
                        const CodeFilter& filter, Apply wanted);

}  // namespace lockstep
