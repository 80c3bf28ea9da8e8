#include "fix/python/statements.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace lockstep {
namespace {

bool is_block(Node node) { return node.is("block") || node.is("module"); }

// From the first byte of the first line to the byte after the last, when nothing else stands on
// them.
std::optional<ByteRange> lines_of_node(std::string_view text, Node statement) {
  if (!statement) return std::nullopt;
  const std::size_t from = line_start(text, statement.from());
  const std::size_t to =
      line_end(text, statement.to() == 0 ? 0 : std::max(statement.from(), statement.to() - 1));
  if (!trim(text.substr(from, statement.from() - from)).empty()) return std::nullopt;
  const std::string_view rest =
      statement.to() < to ? trim(text.substr(statement.to(), to - statement.to())) : "";
  if (!rest.empty() && !rest.starts_with("#")) return std::nullopt;
  return ByteRange{from, to};
}

// A string over several lines would be changed with its indentation.
bool has_long_string(Node statement) {
  const auto strings = statement.descendants("string");
  return std::ranges::any_of(strings, [](const Node& string) {
    return string.text().find('\n') != std::string_view::npos;
  });
}

// The lines with another indentation at their head; empty ones stay empty.
std::string reindented(std::string_view lines, std::string_view old_indent,
                       std::string_view new_indent) {
  std::string result;
  for (std::size_t from = 0; from < lines.size();) {
    const std::size_t to = std::min(lines.size(), line_end(lines, from));
    const std::string_view line = lines.substr(from, to - from);
    if (trim(line).empty())
      result += line;
    else if (line.starts_with(old_indent))
      result += std::string(new_indent) + std::string(line.substr(old_indent.size()));
    else
      result +=
          std::string(new_indent) + std::string(line);  // a bracket's lines may stand further left
    from = to;
  }
  return result;
}

std::string as_lines(std::string_view lines, std::string_view indent, std::string_view ending) {
  std::string result;
  for (const std::string_view line : split(lines, '\n'))
    result += line.empty() ? std::string(ending)
                           : std::string(indent) + std::string(line) + std::string(ending);
  return result;
}

std::string with_break(std::string_view text, std::size_t at, std::string lines) {
  return at > 0 && at == text.size() && text[at - 1] != '\n'
             ? std::string(line_ending_of(text)) + lines
             : lines;
}

// Whether the lines end the text without a break of their own.
std::string ended(std::string_view text, std::string lines) {
  if (!lines.empty() && !lines.ends_with('\n')) lines += line_ending_of(text);
  return lines;
}

}  // namespace

Node statement_of(Node node) {
  while (node && node.parent() && !is_block(node.parent())) node = node.parent();
  return node.parent() ? node : Node();
}

Node block_of(Node statement) { return statement.parent(); }

Node next_statement(Node statement) {
  bool here = false;
  for (const Node& other : block_of(statement).children()) {
    if (here && !other.is("comment")) return other;
    here = here || other == statement;
  }
  return {};
}

std::vector<Node> statements_before(Node node, Node outermost) {
  std::vector<Node> before;
  for (Node statement = statement_of(node); statement && statement != outermost;
       statement = statement_of(block_of(statement))) {
    for (const Node& other : block_of(statement).children()) {
      if (other == statement) break;
      before.push_back(other);
    }
    if (block_of(statement).parent().is("function_definition")) break;
  }
  return before;
}

bool is_loop(Node node) { return node.is("for_statement") || node.is("while_statement"); }

Node loop_around(Node node) {
  for (Node outer = node.parent(); outer; outer = outer.parent()) {
    if (outer.is("function_definition") || outer.is("class_definition") || outer.is("lambda"))
      return {};
    if (is_loop(outer) && outer.field("body").contains(node)) return outer;
  }
  return {};
}

Node condition_around(Node node) {
  for (Node outer = node.parent(); outer && !outer.is("function_definition") && !outer.is("lambda");
       outer = outer.parent())
    if ((outer.is("if_statement") || outer.is("conditional_expression")) &&
        outer.text().substr(0, 30).find("__name__") == std::string_view::npos)
      return outer;
  return {};
}

bool stands_under_the_same(Node loop, Node partner, Node other) {
  for (Node inner = partner, outer = partner.parent(); outer && inner != loop;
       inner = outer, outer = outer.parent()) {
    const bool decides = outer.is("if_statement") || outer.is("try_statement") ||
                         outer.is("while_statement") || outer.is("match_statement");
    // The way within it counts: `if` and its `else` are two.
    if (decides && inner != outer.field("condition") && !inner.contains(other)) return false;
  }
  return true;
}

std::string indent_step(std::string_view text) {
  std::size_t from = 0;
  while (from < text.size()) {
    const std::size_t to = std::min(text.size(), line_end(text, from));
    const std::string_view line = text.substr(from, to - from);
    if (trim(line).ends_with(":") && !line.starts_with(" ") && !line.starts_with("\t") &&
        to < text.size()) {
      const std::string_view indent = indentation_at(text, to);
      if (!indent.empty() && indent.size() <= 8) return std::string(indent);
    }
    from = to;
  }
  return "    ";
}

std::vector<Edit> line_above(std::string_view text, Node statement, std::string_view lines) {
  const auto own = lines_of_node(text, statement);
  if (!own) return {};
  return {{own->from, own->from,
           as_lines(lines, indentation_at(text, statement.from()), line_ending_of(text))}};
}

std::vector<Edit> line_below(std::string_view text, Node statement, std::string_view lines) {
  const auto own = lines_of_node(text, statement);
  if (!own) return {};
  return {
      {own->to, own->to,
       with_break(text, own->to,
                  as_lines(lines, indentation_at(text, statement.from()), line_ending_of(text)))}};
}

std::vector<Edit> first_in_body(std::string_view text, Node owner, std::string_view lines) {
  for (const Node& statement : owner.field("body").children()) {
    const bool docstring = statement.is("expression_statement") && statement.child(0).is("string");
    if (!statement.is("comment") && !docstring) return line_above(text, statement, lines);
  }
  return {};
}

std::vector<Edit> put_under(std::string_view text, Node first, Node last, std::string_view header) {
  const auto from = lines_of_node(text, first);
  const auto to = lines_of_node(text, last);
  if (!from || !to || block_of(first) != block_of(last)) return {};
  const std::string step = indent_step(text);
  // What stands within a string stays as it is.
  std::vector<Node> strings;
  for (const Node& statement : block_of(first).children())
    if (statement.from() >= first.from() && statement.to() <= last.to())
      for (const Node& string : statement.descendants("string")) strings.push_back(string);
  const auto is_within_a_string = [&](std::size_t at) {
    return std::ranges::any_of(
        strings, [&](const Node& string) { return string.from() < at && at < string.to(); });
  };
  // The first byte is written anew, so that two that want to wrap one statement are in each other's
  // way, and come one after the other.
  const std::string indent(indentation_at(text, first.from()));
  std::vector<Edit> edits = {{from->from, first.from() + 1,
                              indent + std::string(header) + std::string(line_ending_of(text)) +
                                  indent + step + std::string(text.substr(first.from(), 1))}};
  for (std::size_t line = line_end(text, from->from); line < to->to; line = line_end(text, line))
    if (!trim(text.substr(line, line_end(text, line) - line)).empty() && !is_within_a_string(line))
      edits.push_back({line, line, step});
  return edits;
}

std::vector<Edit> take_away(std::string_view text, Node statement) {
  const auto own = lines_of_node(text, statement);
  if (!own) return {};
  const auto siblings = block_of(statement).children();
  const auto others = std::ranges::count_if(
      siblings, [&](const Node& other) { return !other.is("comment") && other != statement; });
  if (others == 0) return {};  // a block may not be empty
  // Of an empty line before and one after it, one goes too.
  const bool empty_before =
      own->from > 0 && trim(text.substr(line_start(text, own->from - 1),
                                        own->from - line_start(text, own->from - 1)))
                           .empty();
  const bool empty_after = own->to < text.size() &&
                           trim(text.substr(own->to, line_end(text, own->to) - own->to)).empty();
  return {{own->from, empty_before && empty_after ? line_end(text, own->to) : own->to, ""}};
}

std::vector<Edit> move_above(std::string_view text, Node statement, Node target) {
  const auto own = lines_of_node(text, statement);
  const auto there = lines_of_node(text, target);
  auto edits = take_away(text, statement);
  if (!own || !there || edits.empty() || has_long_string(statement)) return {};
  edits.push_back({there->from, there->from,
                   ended(text, reindented(text.substr(own->from, own->to - own->from),
                                          indentation_at(text, statement.from()),
                                          indentation_at(text, target.from())))});
  return in_order(std::move(edits));
}

std::vector<Edit> move_below(std::string_view text, Node statement, Node target) {
  const auto own = lines_of_node(text, statement);
  auto edits = take_away(text, statement);
  if (!own || edits.empty() || has_long_string(statement) || !target.contains(statement)) return {};
  const std::size_t at = line_end(text, target.to() == 0 ? 0 : target.to() - 1);
  const std::string lines = ended(text, reindented(text.substr(own->from, own->to - own->from),
                                                   indentation_at(text, statement.from()),
                                                   indentation_at(text, target.from())));
  if (at <= own->to)
    edits = {{own->from, at, lines}};  // it was the last of them
  else
    edits.push_back({at, at, with_break(text, at, lines)});
  return in_order(std::move(edits));
}

}  // namespace lockstep
