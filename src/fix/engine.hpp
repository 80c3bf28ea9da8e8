// From a project to patches: runs the rules, groups what belongs together, and lets a patch stand
// only when the patched project shows that it helps.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "fix/left_out.hpp"
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
