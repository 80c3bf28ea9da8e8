#include "fix/project/notebook.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "fix/edit.hpp"

namespace lockstep {
namespace {

constexpr std::string_view kHeading = "# --- notebook cell ";
constexpr std::size_t kHeadingLines = 2;

std::string heading_of(int number) { return fmt::format("{}{} ---\n\n", kHeading, number); }

bool is_other_language(std::string_view text) {
  const std::string_view head = trim(text);
  if (!head.starts_with("%%")) return false;
  for (const char* same : {"%%time", "%%timeit", "%%capture"})
    if (head.starts_with(same)) return false;
  return true;
}

bool is_for_ipython(std::string_view line) {
  const std::string_view words = trim(line);
  return words.starts_with("!") || words.starts_with("%") || words.starts_with("?");
}

// A JSON string's text; nothing for what is none.
std::optional<std::string> decoded(std::string_view literal) {
  const auto value = nlohmann::json::parse(literal, nullptr, false);
  if (!value.is_string()) return std::nullopt;
  return value.get<std::string>();
}

std::string encoded(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// The value of a key of an object.
Node value_of(Node object, std::string_view key) {
  for (const Node& pair : object.children())
    if (pair.is("pair") && decoded(pair.field("key").text()) == key) return pair.field("value");
  return {};
}

std::vector<std::string> cell_lines(std::string_view text) {
  std::vector<std::string> lines;
  for (const std::string_view line : split(text, '\n')) lines.emplace_back(line);
  return lines;
}

}  // namespace

std::optional<Notebook> Notebook::read(std::string json) {
  Notebook notebook;
  notebook.json_ = std::move(json);
  const auto tree = SyntaxTree::parse(Language::json, notebook.json_);
  if (!tree || !tree->errors().empty()) return std::nullopt;
  const Node cells = value_of(tree->root().child(0), "cells");
  if (!cells.is("array")) return std::nullopt;
  int number = 0;
  for (const Node& cell : cells.children()) {
    if (cell.is("comment")) continue;
    ++number;
    if (cell.is("object") && decoded(value_of(cell, "cell_type").text()) == "code")
      notebook.add_cell(value_of(cell, "source"), number);
  }
  return notebook;
}

void Notebook::add_cell(Node source, int number) {
  Cell cell;
  cell.is_list = source.is("array");
  std::string text;
  for (const Node& literal : cell.is_list ? source.children() : std::vector<Node>{source}) {
    const auto part = decoded(literal.text());
    if (!part) continue;
    cell.literals.push_back({literal.from(), literal.to()});
    text += *part;
  }
  if (!cell.literals.empty()) cell.source = {cell.literals.front().from, cell.literals.back().to};
  cell.lines = cell_lines(text);
  const bool other = is_other_language(text);
  code_ += heading_of(number);
  lines_.insert(lines_.end(), kHeadingLines, {Kind::heading, cells_.size()});
  for (const std::string& line : cell.lines) {
    const bool python = !other && !is_for_ipython(line);
    code_ += (python ? "" : "# ") + line + "\n";
    lines_.push_back({python ? Kind::python : Kind::other, cells_.size()});
  }
  cells_.push_back(std::move(cell));
}

std::optional<std::string> Notebook::with_code(std::string_view code) const {
  if (code == code_) return json_;
  std::vector<std::size_t> first(cells_.size() + 1, lines_.size());  // line of each cell's own text
  for (std::size_t i = lines_.size(); i-- > 0;)
    if (lines_[i].kind != Kind::heading) first[lines_[i].cell] = i;
  std::vector<std::vector<std::string>> now;
  for (const Cell& cell : cells_) now.push_back(cell.lines);
  std::vector<std::size_t> changed;
  auto edits = line_edits(code_, code);
  for (auto edit = edits.rbegin(); edit != edits.rend(); ++edit) {  // from the end: places stay
    const auto from = static_cast<std::size_t>(line_number(code_, edit->from)) - 1;
    const auto to = static_cast<std::size_t>(line_number(code_, edit->to)) - 1;
    if (from == 0 || !(edit->text.empty() || edit->text.ends_with('\n'))) return std::nullopt;
    for (std::size_t line = from; line < to; ++line)
      if (lines_[line].kind != Kind::python) return std::nullopt;
    // Between two lines it belongs to the upper one's cell.
    const std::size_t cell = lines_[from < to ? from : from - 1].cell;
    if (from < to && lines_[to - 1].cell != cell) return std::nullopt;
    const std::size_t at = from < first[cell] ? 0 : from - first[cell];
    auto fresh = cell_lines(edit->text);
    fresh.pop_back();  // behind the last end of a line
    auto& lines = now[cell];
    const auto place = lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at),
                                   lines.begin() + static_cast<std::ptrdiff_t>(at + to - from));
    lines.insert(place, fresh.begin(), fresh.end());
    if (changed.empty() || changed.back() != cell) changed.push_back(cell);
  }
  std::string text = json_;
  for (const std::size_t i : changed) {
    const Cell& cell = cells_[i];
    if (cell.literals.empty()) return std::nullopt;
    text.replace(cell.source.from, cell.source.to - cell.source.from, source_with(cell, now[i]));
  }
  const auto again = read(text);
  if (!again || again->code() != code) return std::nullopt;
  return text;
}

// A list has a string for each line, a string for all of them; lines that stay keep their bytes.
std::string Notebook::source_with(const Cell& cell, const std::vector<std::string>& lines) const {
  if (!cell.is_list) return encoded(join(lines, "\n"));
  const auto literal = [&](const ByteRange& range) {
    return std::string_view(json_).substr(range.from, range.to - range.from);
  };
  std::map<std::string, std::string_view> as_it_was;
  for (const ByteRange& range : cell.literals)
    if (auto text = decoded(literal(range))) as_it_was.emplace(std::move(*text), literal(range));
  std::string between = ",\n";
  between += indentation_at(json_, cell.source.from);
  if (cell.literals.size() > 1) between = literal({cell.literals[0].to, cell.literals[1].from});
  std::string source;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string line = lines[i] + (i + 1 < lines.size() ? "\n" : "");
    if (line.empty()) continue;  // what ends with a line has no more of them
    if (!source.empty()) source += between;
    const auto known = as_it_was.find(line);
    source += known != as_it_was.end() ? std::string(known->second) : encoded(line);
  }
  return source.empty() ? encoded("") : source;
}

std::optional<Notebook::Spot> Notebook::spot(std::string_view code, std::size_t offset) {
  std::size_t start = line_start(code, std::min(offset, code.size()));
  for (int line = 1 - static_cast<int>(kHeadingLines);; ++line) {
    if (code.substr(start).starts_with(kHeading)) {
      const auto number = parse_unsigned(
          code.substr(start + kHeading.size(),
                      code.find(' ', start + kHeading.size()) - start - kHeading.size()));
      if (number) return Spot{static_cast<int>(*number), std::max(1, line)};
    }
    if (start == 0) return std::nullopt;
    start = line_start(code, start - 1);
  }
}

}  // namespace lockstep
