#include "fix/python/bindings.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace lockstep {
namespace {

constexpr int kDeepestBlock = 40;  // a text may nest as deep as it likes

bool is_builtin(std::string_view name) {
  static constexpr std::array<std::string_view, 34> kBuiltins = {
      "print", "len",   "range",  "float", "int",        "str",     "bool",
      "list",  "dict",  "set",    "tuple", "enumerate",  "zip",     "max",
      "min",   "sum",   "abs",    "round", "isinstance", "hasattr", "getattr",
      "open",  "super", "sorted", "map",   "filter",     "any",     "all",
      "type",  "id",    "format", "iter",  "next",       "__name__"};
  return std::ranges::find(kBuiltins, name) != kBuiltins.end();
}

bool has_its_own_names(Node node) {
  return node.is("function_definition") || node.is("lambda") || node.is("class_definition") ||
         node.is("list_comprehension") || node.is("dictionary_comprehension") ||
         node.is("set_comprehension") || node.is("generator_expression");
}

// a, (b, c), *d
bool is_target(Node target, std::string_view name) {
  if (target.is("identifier")) return target.text() == name;
  if (target.is("attribute") || target.is("subscript")) return false;
  const auto names = target.descendants("identifier");
  return std::ranges::any_of(names, [&](const Node& item) {
    return item.text() == name && !item.parent().is("attribute") && !item.parent().is("subscript");
  });
}

bool imports(Node statement, std::string_view name) {
  for (const Node& item : statement.fields("name")) {
    const std::string_view alias = item.field("alias").text();
    const std::string_view whole = item.is("aliased_import") ? alias : item.text();
    // `import torch.nn` makes torch known
    if (whole == name || (statement.is("import_statement") && alias.empty() &&
                          whole.substr(0, whole.find('.')) == name))
      return true;
  }
  // Anything may come with *, though not a method's own.
  return name != "self" && name != "cls" && !statement.descendants("wildcard_import").empty();
}

// What this node itself does, without what stands within it.
bool binds_itself(Node node, std::string_view name) {
  if (node.is("assignment") || node.is("augmented_assignment") || node.is("for_statement") ||
      node.is("for_in_clause"))
    return is_target(node.field("left"), name);
  if (node.is("named_expression")) return node.field("name").text() == name;
  if (node.is("import_statement") || node.is("import_from_statement")) return imports(node, name);
  if (node.is("function_definition") || node.is("class_definition"))
    return node.field("name").text() == name;
  if (node.is("as_pattern_target")) return is_target(node, name);
  if (node.is("global_statement") || node.is("nonlocal_statement")) return is_target(node, name);
  return false;
}

bool leaves(Node block) {
  const auto statements = block.children();
  if (statements.empty()) return false;
  const Node last = statements.back();
  if (last.is("return_statement") || last.is("raise_statement") || last.is("continue_statement") ||
      last.is("break_statement"))
    return true;
  const std::string_view text = last.text();
  return text.starts_with("sys.exit(") || text.starts_with("exit(") || text.starts_with("quit(");
}

bool is_bound_after(Node statement, std::string_view name, int depth);

bool is_bound_in_block(Node block, std::string_view name, int depth) {
  const auto statements = block.children();
  return std::ranges::any_of(statements, [&](const Node& statement) {
    return is_bound_after(statement, name, depth + 1);
  });
}

bool is_bound_or_left(Node block, std::string_view name, int depth) {
  return leaves(block) || is_bound_in_block(block, name, depth);
}

// Whether the name has a value once this statement is done.
bool is_bound_after(Node statement, std::string_view name, int depth) {
  if (depth > kDeepestBlock) return false;
  if (statement.is("if_statement")) {
    bool has_else = false;
    if (!is_bound_or_left(statement.field("consequence"), name, depth)) return false;
    for (const Node& way : statement.fields("alternative")) {
      has_else = has_else || way.is("else_clause");
      if (!is_bound_or_left(way.field(way.is("else_clause") ? "body" : "consequence"), name, depth))
        return false;
    }
    return has_else || leaves(statement.field("consequence"));
  }
  if (statement.is("try_statement")) {
    bool in_handlers = true;
    bool at_the_end = false;
    for (const Node& part : statement.children()) {
      const auto blocks = part.children();
      if (part.is("except_clause") && !blocks.empty())
        in_handlers = in_handlers && is_bound_or_left(blocks.back(), name, depth);
      if ((part.is("finally_clause") || part.is("else_clause")) && !blocks.empty())
        at_the_end = at_the_end || is_bound_in_block(blocks.back(), name, depth);
    }
    return at_the_end || (in_handlers && is_bound_in_block(statement.field("body"), name, depth));
  }
  if (statement.is("with_statement"))
    return binds(statement.child(0), name) ||
           is_bound_in_block(statement.field("body"), name, depth);
  if (statement.is("decorated_definition"))
    return binds_itself(statement.field("definition"), name);
  // A loop may have no turn.
  if (statement.is("for_statement") || statement.is("while_statement") ||
      statement.is("match_statement"))
    return false;
  if (statement.is("expression_statement")) return binds(statement, name);
  return binds_itself(statement, name);
}

bool has_parameter(Node function, std::string_view name) {
  const auto parameters = function.field("parameters").children();
  return std::ranges::any_of(parameters, [&](const Node& parameter) {
    const Node named = parameter.field("name")      ? parameter.field("name")
                       : parameter.is("identifier") ? parameter
                                                    : parameter.child(0);
    return named.text() == name;
  });
}

bool is_bound_before(Node block, Node statement, std::string_view name) {
  for (const Node& other : block.children()) {
    if (other.from() >= statement.from()) return false;
    if (is_bound_after(other, name, 0)) return true;
  }
  return false;
}

}  // namespace

bool binds(Node within, std::string_view name) {
  // No recursion: a text may nest as deep as it likes.
  std::vector<Node> open;
  if (within) open.push_back(within);
  while (!open.empty()) {
    const Node node = open.back();
    open.pop_back();
    if (binds_itself(node, name)) return true;
    if (node != within && has_its_own_names(node)) continue;
    for (const Node& child : node.children()) open.push_back(child);
  }
  return false;
}

bool is_certainly_bound(Node at, std::string_view name) {
  if (is_builtin(name)) return true;
  bool is_later = false;  // seen from a function that runs later: any value counts
  for (Node inner = at, outer = at.parent(); outer; inner = outer, outer = outer.parent()) {
    const bool in_body = inner == outer.field("body");
    if (outer.is("block") || outer.is("module")) {
      if (is_later ? outer.is("module") && binds(outer, name) : is_bound_before(outer, inner, name))
        return true;
    } else if (outer.is("for_statement") && in_body) {
      if (is_target(outer.field("left"), name)) return true;
    } else if (outer.is("with_statement") && in_body) {
      if (binds(outer.child(0), name)) return true;
    } else if (outer.is("except_clause")) {
      const auto targets = outer.descendants("as_pattern_target");
      if (!targets.empty() && is_target(targets.front(), name)) return true;
    } else if (outer.is("function_definition") || outer.is("lambda")) {
      if (has_parameter(outer, name)) return true;
      if (outer.is("function_definition")) {
        if (binds(outer.field("body"), name)) {
          // its own name, and not on every way; one that is said to be global is the module's
          const auto globals = outer.field("body").descendants("global_statement");
          const bool is_global = std::ranges::any_of(
              globals, [&](const Node& statement) { return is_target(statement, name); });
          if (!is_global && !is_later) return false;
          if (!is_global) return true;
        }
        is_later = true;
      }
    } else if (has_its_own_names(outer) && !outer.is("class_definition")) {
      for (const Node& clause : outer.children())
        if (clause.is("for_in_clause") && is_target(clause.field("left"), name)) return true;
    }
  }
  return false;
}

bool is_read(Node identifier) {
  const Node parent = identifier.parent();
  if (parent.is("attribute")) return parent.field("object") == identifier;
  if (parent.is("keyword_argument")) return parent.field("value") == identifier;
  if (parent.is("assignment") || parent.is("for_statement") || parent.is("for_in_clause"))
    return parent.field("left") != identifier;
  if (parent.is("named_expression")) return parent.field("value") == identifier;
  static constexpr std::array<std::string_view, 14> kOthers = {
      "dotted_name",         "aliased_import",   "import_statement",  "import_from_statement",
      "function_definition", "class_definition", "parameters",        "lambda_parameters",
      "default_parameter",   "typed_parameter",  "as_pattern_target", "pattern_list",
      "global_statement",    "tuple_pattern"};
  return std::ranges::none_of(kOthers, [&](std::string_view kind) { return parent.is(kind); });
}

}  // namespace lockstep
