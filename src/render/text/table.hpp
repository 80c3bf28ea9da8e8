// Lines up cells in columns, by what they look like on a terminal.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// Columns on a terminal: code points, which is right for Latin text and the signs used here.
std::size_t display_width(std::string_view utf8);

enum class Align { left, right };

// As many columns of it, the last one an ellipsis where it is longer.
std::string cut_to(std::string line, std::size_t width);

class Table {
 public:
  explicit Table(std::vector<std::pair<std::string, Align>> columns);
  void add(std::vector<std::string> cells);
  // Lines with a newline each. What does not fit in `width` goes on below where the last column is
  // of words, at a comma; else it ends in an ellipsis.
  std::string text(std::optional<std::size_t> width) const;

 private:
  std::vector<Align> align_;
  std::vector<std::vector<std::string>> rows_;  // the first is the heading
};

}  // namespace lockstep
