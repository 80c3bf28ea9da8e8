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

class Table {
 public:
  explicit Table(std::vector<std::pair<std::string, Align>> columns);
  void add(std::vector<std::string> cells);
  // Lines with a newline each; lines longer than `width` end in an ellipsis.
  std::string text(std::optional<std::size_t> width) const;

 private:
  std::vector<Align> align_;
  std::vector<std::vector<std::string>> rows_;  // the first is the heading
};

}  // namespace lockstep
