// A notebook's code as one Python text, and a changed code back in its cells.
//
// In the text a line that names the cell stands before each (`# --- notebook cell 4 ---`, and a
// blank one), so that whatever is put in or taken out is one cell's. Lines for the shell and for
// IPython (`!pip install`, `%matplotlib`) become comments, and so do whole cells of another
// language (`%%bash`).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fix/syntax/syntax_tree.hpp"

namespace lockstep {

class Notebook {
 public:
  // Nothing for what is no notebook.
  static std::optional<Notebook> read(std::string json);

  const std::string& json() const { return json_; }
  const std::string& code() const { return code_; }

  // The notebook with another code: all else stays as it is, to the byte. Nothing where what stands
  // between cells, or a line that is no Python, would change.
  std::optional<std::string> with_code(std::string_view code) const;

  // Where a byte of such a code stands: the cell's number among all cells, from 1 as a reader
  // counts them, and the line in it. Nothing before the first.
  struct Spot {
    int cell = 0;
    int line = 0;
  };
  static std::optional<Spot> spot(std::string_view code, std::size_t offset);

 private:
  enum class Kind : std::uint8_t { heading, python, other };
  struct Line {
    Kind kind = Kind::heading;
    std::size_t cell = 0;
  };
  struct Cell {
    ByteRange source;                 // the string, or the list's first string to its last
    std::vector<ByteRange> literals;  // of a list, one for each line
    std::vector<std::string> lines;   // as the notebook has them, without their ends
    bool is_list = false;
  };
  void add_cell(Node source, int number);
  std::string source_with(const Cell& cell, const std::vector<std::string>& lines) const;

  std::string json_;
  std::string code_;
  std::vector<Cell> cells_;
  std::vector<Line> lines_;  // of the code
};

}  // namespace lockstep
