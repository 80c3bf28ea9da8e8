// Patterns of paths as .gitignore writes them: what a walk passes over, and what --exclude and
// per-file settings mean.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// "*" and "?" stop at a slash, "**" does not; "[a-z]", "[!x]".
bool matches_glob(std::string_view pattern, std::string_view text);

class PathPatterns {
 public:
  // Lines of a file in `base`; comments and blank lines are none.
  void add(const std::filesystem::path& base, std::string_view lines);
  // The .gitignore of a folder, where it has one.
  void add_gitignore_of(const std::filesystem::path& folder);
  // The last pattern that speaks of the path decides; "!x" takes it back.
  bool match(const std::filesystem::path& path, bool is_folder) const;
  bool empty() const { return patterns_.empty(); }

 private:
  struct Pattern {
    std::string base;  // ends with a slash
    std::string glob;
    bool is_anchored = false;  // from the base, else by the last name at any depth
    bool folders_only = false;
    bool takes_back = false;
  };
  std::vector<Pattern> patterns_;
};

}  // namespace lockstep
