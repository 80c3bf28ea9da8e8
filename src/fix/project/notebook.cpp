#include "fix/project/notebook.hpp"

#include <nlohmann/json.hpp>

#include "base/text.hpp"

namespace lockstep {
namespace {

// A cell's source is a string or a list of lines.
std::string source_of(const nlohmann::json& cell) {
  const auto found = cell.find("source");
  if (found == cell.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  std::string text;
  if (found->is_array())
    for (const auto& line : *found)
      if (line.is_string()) text += line.get<std::string>();
  return text;
}

bool is_other_language(std::string_view text) {
  const std::string_view head = trim(text);
  if (!head.starts_with("%%")) return false;
  for (const char* same : {"%%time", "%%timeit", "%%capture"})
    if (head.starts_with(same)) return false;
  return true;
}

}  // namespace

std::optional<NotebookCode> code_of_notebook(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("cells") || !json["cells"].is_array())
    return std::nullopt;
  NotebookCode code;
  int number = 0;
  int line_number = 1;
  for (const auto& cell : json["cells"]) {
    ++number;
    if (!cell.is_object() || cell.value("cell_type", nlohmann::json("")) != "code") continue;
    const std::string source = source_of(cell);
    const bool other = is_other_language(source);
    code.cells.push_back({number, line_number});
    for (const std::string_view line : split(source, '\n')) {
      const std::string_view words = trim(line);
      const bool magic =
          other || words.starts_with("!") || words.starts_with("%") || words.starts_with("?");
      code.text += (magic ? "# " : "") + std::string(line) + "\n";
      ++line_number;
    }
  }
  return code;
}

}  // namespace lockstep
