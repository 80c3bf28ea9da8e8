#include "fix/left_out.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "fix/project/path_patterns.hpp"

namespace lockstep {
namespace {

// `lockstep: ignore[P101]` in a comment on the line or alone on the line above; without a code it
// speaks of all.
bool ignores(std::string_view line, FindingCode code) {
  const auto mark = line.find("lockstep: ignore");
  if (mark == std::string_view::npos || line.substr(0, mark).find('#') == std::string_view::npos)
    return false;
  const std::string_view rest = line.substr(mark + std::string_view("lockstep: ignore").size());
  if (!rest.starts_with("[")) return true;
  for (const std::string_view word :
       split(rest.substr(
                 1, rest.find(']') == std::string_view::npos ? rest.size() : rest.find(']') - 1),
             ','))
    if (trim(word) == name_of(code).id || trim(word) == name_of(code).name) return true;
  return false;
}

bool is_ignored(const Project& project, const CodeFinding& finding) {
  const Place& place = finding.where.front();
  const std::string_view text = project.file(place.file).text();
  const std::size_t start = line_start(text, place.from);
  const std::size_t end = line_end(text, std::max(place.from, place.to == 0 ? 0 : place.to - 1));
  for (const std::string_view line : split(text.substr(start, end - start), '\n'))
    if (ignores(line, finding.code)) return true;
  if (start == 0) return false;
  const std::string_view above =
      text.substr(line_start(text, start - 1), start - line_start(text, start - 1));
  return trim(above).starts_with("#") && ignores(above, finding.code);
}

}  // namespace

std::vector<std::string> unknown_codes_in(std::string_view line) {
  constexpr std::string_view kMark = "lockstep: ignore[";
  const auto mark = line.find(kMark);
  if (mark == std::string_view::npos || line.substr(0, mark).find('#') == std::string_view::npos)
    return {};
  const std::string_view rest = line.substr(mark + kMark.size());
  std::vector<std::string> unknown;
  for (const std::string_view word : split(rest.substr(0, rest.find(']')), ','))
    if (!trim(word).empty() && finding_named(trim(word)) == nullptr)
      unknown.emplace_back(trim(word));
  return unknown;
}

bool is_left_out(const Project& project, const CodeFilter& filter, const CodeFinding& finding) {
  if (filter.ignore.contains(finding.code) || is_ignored(project, finding)) return true;
  const std::string& name = project.file(finding.where.front().file).name();
  for (const auto& [glob, codes] : filter.per_file)
    if (codes.contains(finding.code) &&
        (matches_glob(glob, name) || matches_glob("**/" + glob, name)))
      return true;
  return false;
}

bool is_known(const Project& project, const CodeFilter& filter, const CodeFinding& finding) {
  return !filter.known.empty() && filter.known.contains(fingerprint_of(project, finding));
}

bool wants(const CodeFilter& filter, FindingCode code) {
  return (filter.select.empty() || filter.select.contains(code)) && !filter.ignore.contains(code);
}

std::string fingerprint_of(const Project& project, const CodeFinding& finding) {
  const Place& place = finding.where.front();
  const std::string& text = project.file(place.file).text();
  const std::size_t start = line_start(text, place.from);
  const std::string_view line =
      trim(std::string_view(text).substr(start, line_end(text, place.from) - start));
  return fmt::format("{} {} {}", name_of(finding.code).id, project.file(place.file).name(),
                     hash_words(line));
}

}  // namespace lockstep
