#include "fix/patch_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "fix/python/bindings.hpp"
#include "fix/python/statements.hpp"

namespace lockstep {
namespace {

constexpr int kErrorIsNear = 5;  // lines: a parser's idea of where a mistake stands is that good

}  // namespace

std::string objection(const SourceFile& file, const std::vector<Edit>& edits) {
  if (!file.refusal().empty()) return file.refusal();
  if (file.is_notebook() &&
      !SourceFile(file.with_text(edited(file.text(), in_order(edits)))).disk_text())
    return "the change does not fit into one of its cells: make it by hand";
  if (file.tree() == nullptr)
    return file.kind() == FileKind::makefile || file.kind() == FileKind::dockerfile
               ? ""
               : "no parser could make sense of it";
  if (file.tree()->errors().empty()) return "";
  std::vector<int> lines;
  for (const Edit& edit : edits) lines.push_back(line_number(file.text(), edit.from));
  int first = 1;
  std::size_t counted = 0;
  for (const ByteRange& error : file.tree()->errors()) {  // in order: lines are counted once
    first += static_cast<int>(
        std::count(file.text().begin() + static_cast<std::ptrdiff_t>(counted),
                   file.text().begin() + static_cast<std::ptrdiff_t>(error.from), '\n'));
    counted = error.from;
    const int last =
        first + static_cast<int>(
                    std::count(file.text().begin() + static_cast<std::ptrdiff_t>(error.from),
                               file.text().begin() + static_cast<std::ptrdiff_t>(error.to), '\n'));
    if (std::ranges::any_of(lines, [&](int line) {
          return line >= first - kErrorIsNear && line <= last + kErrorIsNear;
        }))
      return fmt::format("it has a syntax error near line {}: mend that first", first);
  }
  return "";
}

std::size_t damage_of(const SourceFile& file) {
  if (file.tree() == nullptr) return 0;
  std::size_t damage = file.tree()->errors().size();
  // Python's parser here does not mind a header whose block is missing.
  if (file.kind() == FileKind::python)
    for (std::uint32_t index = 0; index < file.tree()->size(); ++index) {
      const Node node = file.tree()->at(index);
      const char* const body = node.is("if_statement") ? "consequence"
                               : node.is("for_statement") || node.is("while_statement") ||
                                       node.is("with_statement") || node.is("function_definition")
                                   ? "body"
                                   : nullptr;
      if (body != nullptr && node.field(body).children().empty()) ++damage;
    }
  if (const PythonModule* const module = file.python())
    for (const PythonCall& call : module->calls()) {
      std::set<std::string_view> names;
      for (const PythonArgument& argument : call.arguments)
        if (!argument.name.empty() && !names.insert(argument.name).second) ++damage;
    }
  return damage;
}

std::string unset_name(const SourceFile& patched, const std::vector<Edit>& edits) {
  if (patched.kind() != FileKind::python || patched.tree() == nullptr) return "";
  std::vector<ByteRange> fresh;
  std::ptrdiff_t moved = 0;
  for (const Edit& edit : edits) {  // in order
    const auto from = static_cast<std::size_t>(static_cast<std::ptrdiff_t>(edit.from) + moved);
    fresh.push_back({from, from + edit.text.size()});
    moved += static_cast<std::ptrdiff_t>(edit.text.size()) -
             static_cast<std::ptrdiff_t>(edit.to - edit.from);
  }
  const auto is_fresh = [&](const Node& node) {
    return std::ranges::any_of(fresh, [&](const ByteRange& range) {
      return range.from <= node.from() && node.to() <= range.to;
    });
  };
  for (const Node& name : patched.tree()->root().descendants("identifier")) {
    if (!is_fresh(name) || !is_read(name) || is_certainly_bound(name, name.text())) continue;
    // The statement has leant on it before.
    const auto beside = statement_of(name).descendants("identifier");
    if (std::ranges::none_of(beside, [&](const Node& other) {
          return other.text() == name.text() && !is_fresh(other) && is_read(other);
        }))
      return std::string(name.text());
  }
  return "";
}

}  // namespace lockstep
