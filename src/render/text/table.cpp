#include "render/text/table.hpp"

#include <algorithm>

namespace lockstep {

std::size_t display_width(std::string_view utf8) {
  return static_cast<std::size_t>(std::ranges::count_if(
      utf8, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80; }));
}

std::string cut_to(std::string line, std::size_t width) {
  if (display_width(line) <= width) return line;
  std::size_t columns = 0;
  std::size_t at = 0;
  while (at < line.size() && columns + 1 < width) {
    ++at;
    while (at < line.size() && (static_cast<unsigned char>(line[at]) & 0xC0U) == 0x80) ++at;
    ++columns;
  }
  return line.substr(0, at) + "\xE2\x80\xA6";
}

namespace {

constexpr std::string_view kClause = ", ";

// The last column's words from `column` on, as many clauses to a line as fit.
std::string broken_to(std::string line, std::size_t column, std::size_t width) {
  std::string text;
  while (display_width(line) > width) {
    std::size_t at = line.find(kClause, column);
    for (auto next = at; next != std::string::npos; next = line.find(kClause, next + 1))
      if (display_width(std::string_view(line).substr(0, next + 1)) <= width) at = next;
    if (at == std::string::npos || display_width(std::string_view(line).substr(0, at + 1)) > width)
      break;
    const std::size_t columns = display_width(std::string_view(line).substr(0, column));
    text += line.substr(0, at + 1) + "\n";
    line = std::string(columns, ' ') + line.substr(at + kClause.size());
    column = columns;
  }
  return text + cut_to(std::move(line), width);
}
}  // namespace

Table::Table(std::vector<std::pair<std::string, Align>> columns) {
  std::vector<std::string> heading;
  for (auto& [name, align] : columns) {
    heading.push_back(std::move(name));
    align_.push_back(align);
  }
  rows_.push_back(std::move(heading));
}

void Table::add(std::vector<std::string> cells) {
  cells.resize(align_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text(std::optional<std::size_t> width) const {
  std::vector<std::size_t> widths(align_.size(), 0);
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], display_width(row[i]));
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    std::size_t last_column = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      last_column = line.size();
      const std::string space(widths[i] - display_width(row[i]), ' ');
      line += align_[i] == Align::right ? space + row[i] : row[i] + space;
      if (i + 1 < row.size()) line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    const bool of_words = align_.back() == Align::left;
    text += (!width     ? line
             : of_words ? broken_to(std::move(line), std::min(last_column, line.size()), *width)
                        : cut_to(std::move(line), *width)) +
            "\n";
  }
  return text;
}

}  // namespace lockstep
