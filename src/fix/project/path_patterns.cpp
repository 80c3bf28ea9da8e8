#include "fix/project/path_patterns.hpp"

#include <algorithm>

#include "base/file.hpp"
#include "base/text.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// Whether the set at the front of `pattern` ("[a-z]") holds the letter; its end is taken off.
bool in_set(std::string_view& pattern, char letter) {
  pattern.remove_prefix(1);
  const bool negated = pattern.starts_with('!') || pattern.starts_with('^');
  if (negated) pattern.remove_prefix(1);
  bool holds = false;
  for (bool first = true; !pattern.empty() && (first || pattern.front() != ']'); first = false) {
    if (pattern.size() > 2 && pattern[1] == '-' && pattern[2] != ']') {
      holds = holds || (pattern[0] <= letter && letter <= pattern[2]);
      pattern.remove_prefix(3);
    } else {
      holds = holds || pattern.front() == letter;
      pattern.remove_prefix(1);
    }
  }
  if (!pattern.empty()) pattern.remove_prefix(1);
  return holds != negated;
}

}  // namespace

bool matches_glob(std::string_view pattern, std::string_view text) {
  // Where the last star stood, to try it with one letter more: no recursion, whatever the pattern.
  std::string_view star_pattern;
  std::string_view star_text;
  bool has_star = false;
  bool crosses = false;
  for (;;) {
    if (pattern.starts_with('*')) {
      crosses = pattern.starts_with("**");
      pattern.remove_prefix(std::min(pattern.find_first_not_of('*'), pattern.size()));
      if (crosses && pattern.starts_with('/')) pattern.remove_prefix(1);  // "**/x" is "x", too
      star_pattern = pattern;
      star_text = text;
      has_star = true;
      continue;
    }
    bool fits = false;
    std::string_view rest = pattern;
    if (!pattern.empty() && !text.empty()) {
      if (pattern.front() == '[') {
        fits = in_set(rest, text.front());
      } else {
        fits = pattern.front() == '?' ? text.front() != '/' : pattern.front() == text.front();
        rest.remove_prefix(1);
      }
    }
    if (fits) {
      pattern = rest;
      text.remove_prefix(1);
      continue;
    }
    if (pattern.empty() && text.empty()) return true;
    if (!has_star || star_text.empty() || (star_text.front() == '/' && !crosses)) return false;
    star_text.remove_prefix(1);
    pattern = star_pattern;
    text = star_text;
  }
}

void PathPatterns::add(const fs::path& base, std::string_view lines) {
  for (std::string_view line : split(lines, '\n')) {
    line = trim(line);
    if (line.empty() || line.starts_with('#')) continue;
    Pattern pattern;
    pattern.base = base.string();
    if (!pattern.base.ends_with('/')) pattern.base += '/';
    if (line.starts_with('!')) {
      pattern.takes_back = true;
      line.remove_prefix(1);
    }
    if (line.ends_with('/')) {
      pattern.folders_only = true;
      line.remove_suffix(1);
    }
    pattern.is_anchored = line.find('/') != std::string_view::npos;
    if (line.starts_with('/')) line.remove_prefix(1);
    if (line.empty()) continue;
    pattern.glob = line;
    patterns_.push_back(std::move(pattern));
  }
}

void PathPatterns::add_gitignore_of(const fs::path& folder) {
  std::error_code failed;
  const fs::path file = folder / ".gitignore";
  if (!fs::is_regular_file(file, failed)) return;
  constexpr std::size_t kLargest = 1U << 20U;
  if (const auto text = read_small_file(file, kLargest)) add(folder, *text);
}

bool PathPatterns::match(const fs::path& path, bool is_folder) const {
  const std::string whole = path.string();
  bool matched = false;
  for (const Pattern& pattern : patterns_) {
    if ((pattern.folders_only && !is_folder) || !whole.starts_with(pattern.base)) continue;
    const std::string_view below = std::string_view(whole).substr(pattern.base.size());
    const std::string_view name = below.substr(below.rfind('/') + 1);
    if (matches_glob(pattern.glob, pattern.is_anchored ? below : name))
      matched = !pattern.takes_back;
  }
  return matched;
}

}  // namespace lockstep
