// A notebook's code as one Python text, and which of its lines is which cell's.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct NotebookCell {
  int number = 0;      // among all cells, from 1, as a reader counts them
  int first_line = 0;  // of the whole text, from 1
};

struct NotebookCode {
  std::string text;
  std::vector<NotebookCell> cells;  // of code, in order
};

// Nothing for what is no notebook. Lines for the shell and for IPython (`!pip install`,
// `%matplotlib`) become comments, and so do whole cells of another language (`%%bash`).
std::optional<NotebookCode> code_of_notebook(std::string_view json);

}  // namespace lockstep
