// Which findings are not told: by code, by file, by a comment, or since a baseline holds them.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fix/rule.hpp"

namespace lockstep {

struct CodeFilter {
  std::set<FindingCode> select;  // empty: all
  std::set<FindingCode> ignore;
  // in files whose name fits: a glob, from the folder that names are shown from
  std::vector<std::pair<std::string, std::set<FindingCode>>> per_file;
  std::set<std::string> known;  // fingerprints: a baseline's
};

bool wants(const CodeFilter& filter, FindingCode code);
// By --ignore, by a setting for its file, or by `lockstep: ignore[P101]` in a comment on its line
// or alone on the line above.
bool is_left_out(const Project& project, const CodeFilter& filter, const CodeFinding& finding);
bool is_known(const Project& project, const CodeFilter& filter, const CodeFinding& finding);
// What stays the same of a finding when lines above it come and go.
std::string fingerprint_of(const Project& project, const CodeFinding& finding);
// The codes in "# lockstep: ignore[...]" that are none.
std::vector<std::string> unknown_codes_in(std::string_view line);

}  // namespace lockstep
