#include "fix/python/python_module.hpp"

#include <algorithm>
#include <charconv>

#include "fix/edit.hpp"

namespace lockstep {
namespace {

// "a . b" as "a.b"; nothing for what is not a plain dotted name.
std::string dotted_name(Node node) {
  if (!node.is("identifier") && !node.is("attribute") && !node.is("dotted_name")) return "";
  std::string name;
  for (const char c : node.text())
    if (c == '(' || c == '[' || c == '"' || c == '\'')
      return "";
    else if (c != ' ' && c != '\n' && c != '\r' && c != '\t' && c != '\\')
      name += c;
  return name;
}

// The text of a target without white space, so that `os.environ["X"]` is found however it is
// spaced.
std::string tight(std::string_view text) {
  std::string name;
  for (const char c : text)
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r') name += c == '\'' ? '"' : c;
  return name;
}

}  // namespace

const PythonArgument* PythonCall::argument(std::string_view name) const {
  for (const PythonArgument& item : arguments)
    if (item.name == name) return &item;
  return nullptr;
}

const PythonArgument* PythonCall::positional(std::size_t position) const {
  for (const PythonArgument& item : arguments)
    if (item.name.empty() && position-- == 0) return &item;
  return nullptr;
}

const PythonArgument* PythonCall::given(std::string_view name, std::size_t position) const {
  const PythonArgument* const named = argument(name);
  return named != nullptr ? named : positional(position);
}

std::string_view PythonCall::last_name() const {
  const auto dot = callee.rfind('.');
  return std::string_view(callee).substr(dot == std::string::npos ? 0 : dot + 1);
}

PythonModule::PythonModule(const SyntaxTree& tree) : tree_(&tree) {
  // Imports first: what a call's name means depends on them.
  for (std::uint32_t index = 0; index < tree.size(); ++index) {
    const Node node = tree.at(index);
    if (!node.is_named()) continue;
    const std::string_view kind = node.kind();
    if (kind == "import_statement" || kind == "import_from_statement") read_import(node);
  }
  // around the node that is looked at; walking up from each would be quadratic in deep code
  std::vector<Node> functions;
  for (std::uint32_t index = 0; index < tree.size(); ++index) {
    const Node node = tree.at(index);
    while (!functions.empty() && functions.back().end_index() <= index) functions.pop_back();
    if (!node.is_named()) continue;
    const std::string_view kind = node.kind();
    if (kind == "call")
      read_call(node);
    else if (kind == "assignment" || kind == "named_expression")
      read_assignment(node, functions.empty() ? Node() : functions.back());
    else if (kind == "class_definition")
      read_class(node);
    else if (kind == "function_definition") {
      read_function(node);
      functions.push_back(node);
    }
  }
}

void PythonModule::read_import(Node statement) {
  const bool at_top = statement.parent().is("module");
  const auto add = [&](std::string module, std::string name, std::string alias) {
    std::string target = name.empty()            ? module
                         : module.ends_with('.') ? module + name
                                                 : module + "." + name;
    // `import torch.nn` makes torch known, not torch.nn.
    if (name.empty() && alias.empty())
      aliases_.emplace(module.substr(0, module.find('.')), module.substr(0, module.find('.')));
    else
      aliases_.emplace(alias.empty() ? name : alias, target);
    imports_.push_back({std::move(module), std::move(name), std::move(alias), statement, at_top});
  };
  const std::string module = statement.is("import_from_statement")
                                 ? std::string(statement.field("module_name").text())
                                 : "";
  for (const Node& item : statement.fields("name")) {
    const bool aliased = item.is("aliased_import");
    const std::string name =
        aliased ? std::string(item.field("name").text()) : std::string(item.text());
    const std::string alias = aliased ? std::string(item.field("alias").text()) : "";
    if (module.empty())
      add(name, "", alias);
    else
      add(module, name, alias);
  }
  if (!module.empty() && !statement.descendants("wildcard_import").empty())
    imports_.push_back({module, "*", "", statement, at_top});
}

std::string PythonModule::followed(std::string_view dotted) const {
  const auto dot = dotted.find('.');
  const auto found = aliases_.find(dotted.substr(0, dot));
  if (found == aliases_.end()) return std::string(dotted);
  return found->second + (dot == std::string_view::npos ? "" : std::string(dotted.substr(dot)));
}

void PythonModule::read_call(Node node) {
  const Node list = node.field("arguments");
  if (!list.is("argument_list")) return;
  PythonCall call{node, list, dotted_name(node.field("function")), "", {}, false};
  if (call.callee.empty()) {
    // get_model().train(): only the method's name is known.
    const Node function = node.field("function");
    if (!function.is("attribute")) return;
    call.callee = "?." + std::string(function.field("attribute").text());
  }
  call.full_name = followed(call.callee);
  for (const Node& item : list.children()) {
    if (item.is("keyword_argument"))
      call.arguments.push_back({std::string(item.field("name").text()), item.field("value"), item});
    else if (item.is("list_splat") || item.is("dictionary_splat"))
      call.has_splat = true;
    else if (!item.is("comment"))
      call.arguments.push_back({"", item, item});
  }
  calls_.push_back(std::move(call));
}

void PythonModule::read_assignment(Node node, Node function) {
  const Node left = node.is("named_expression") ? node.field("name") : node.field("left");
  const Node right = node.is("named_expression") ? node.field("value") : node.field("right");
  if (!left || !right) return;
  const auto add = [&](Node target, std::optional<std::size_t> element) {
    assignments_.push_back({tight(target.text()), right, node, function, element});
  };
  if (left.is("pattern_list") || left.is("tuple_pattern") || left.is("list_pattern")) {
    for (std::size_t element = 0; const Node& target : left.children()) add(target, element++);
  } else {
    add(left, std::nullopt);
  }
}

void PythonModule::read_function(Node node) {
  PythonFunction function{std::string(node.field("name").text()), {}, node};
  for (const Node& parameter : node.field("parameters").children()) {
    const Node name = parameter.is("identifier") ? parameter
                      : parameter.field("name")  ? parameter.field("name")
                                                 : parameter.child(0);
    if (!parameter.is("comment")) function.parameters.emplace_back(name.text());
  }
  functions_.push_back(std::move(function));
}

void PythonModule::read_class(Node node) {
  PythonClass entry{std::string(node.field("name").text()), {}, node};
  for (const Node& base : node.field("superclasses").children())
    if (const std::string name = dotted_name(base); !name.empty())
      entry.bases.push_back(followed(name));
  classes_.push_back(std::move(entry));
}

bool PythonModule::imports_module(std::string_view module) const {
  // asked of each call of each file: nothing is put together for it
  return std::ranges::any_of(imports_, [&](const PythonImport& import) {
    const std::string_view own = import.module;
    if (own.starts_with(module)) return own.size() == module.size() || own[module.size()] == '.';
    return !import.name.empty() && module.size() == own.size() + 1 + import.name.size() &&
           module.starts_with(own) && module[own.size()] == '.' && module.ends_with(import.name);
  });
}

std::vector<const PythonAssignment*> PythonModule::assigned(std::string_view target) const {
  std::vector<const PythonAssignment*> found;
  for (const PythonAssignment& item : assignments_)
    if (item.target == target) found.push_back(&item);
  return found;
}

Node PythonModule::only_value_of(std::string_view name) const {
  const auto found = assigned(name);
  if (found.size() != 1) return {};
  // A parameter of the same name may bring another value.
  for (const PythonFunction& function : functions_)
    if (std::ranges::find(function.parameters, name) != function.parameters.end()) return {};
  return found.front()->value;
}

std::optional<std::string> string_value(Node node) {
  while (node.is("parenthesized_expression")) node = node.child(0);
  if (!node.is("string")) return std::nullopt;
  const std::string_view text = node.text();
  const auto quote = text.find_first_of("\"'");
  if (quote == std::string_view::npos ||
      (quote > 0 && text.substr(0, quote) != "r" && text.substr(0, quote) != "u"))
    return std::nullopt;
  const std::size_t width =
      text.substr(quote).starts_with("\"\"\"") || text.substr(quote).starts_with("'''") ? 3 : 1;
  if (text.size() < quote + 2 * width) return std::nullopt;
  const std::string_view inner = text.substr(quote + width, text.size() - quote - 2 * width);
  if (inner.find('\\') != std::string_view::npos) return std::nullopt;
  return std::string(inner);
}

std::optional<double> number_value(Node node) {
  while (node.is("parenthesized_expression")) node = node.child(0);
  const bool negative = node.is("unary_operator") && node.text().starts_with("-");
  if (negative) node = node.field("argument");
  if (!node.is("integer") && !node.is("float")) return std::nullopt;
  std::string digits;
  for (const char c : node.text())
    if (c != '_') digits += c;
  double value = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (failed != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return negative ? -value : value;
}

std::optional<bool> bool_value(Node node) {
  if (node.is("true")) return true;
  if (node.is("false")) return false;
  return std::nullopt;
}

bool is_none(Node node) { return node.is("none"); }

std::set<std::string> names_in(Node expression) {
  std::set<std::string> names;
  for (const Node& name : expression.descendants("identifier")) {
    // The x of f(x=1) and of a.x is no name of this scope.
    const Node parent = name.parent();
    if (parent.is("keyword_argument") && parent.field("name") == name) continue;
    if (parent.is("attribute") && parent.field("attribute") == name) {
      names.insert(tight(parent.text()));
      continue;
    }
    names.insert(std::string(name.text()));
  }
  return names;
}

std::set<std::string> environment_read_in(Node expression) {
  std::set<std::string> names;
  for (const Node& item : expression.descendants("string")) {
    const Node parent = item.parent();
    const Node owner = parent.is("subscript")       ? parent.field("value")
                       : parent.is("argument_list") ? parent.parent().field("function")
                                                    : Node();
    const std::string_view text = owner.text();
    if (!text.ends_with("environ") && !text.ends_with("environ.get") && !text.ends_with("getenv") &&
        !text.ends_with("environ.setdefault"))
      continue;
    if (parent.is("argument_list") && parent.child(0) != item) continue;
    // it is set, not read
    if (parent.is("subscript") && parent.parent().is("assignment") &&
        parent.parent().field("left") == parent)
      continue;
    if (const auto value = string_value(item)) names.insert(*value);
  }
  return names;
}

std::size_t import_place(const PythonModule& module) {
  const std::string_view text = module.tree().source();
  std::size_t place = 0;
  bool any_import = false;
  for (const Node& statement : module.tree().root().children()) {
    const bool import = statement.is("import_statement") || statement.is("import_from_statement") ||
                        statement.is("future_import_statement");
    const bool head = statement.is("comment") ||
                      (statement.is("expression_statement") && statement.child(0).is("string"));
    if (!import && !head) break;  // what stands below may need the import already
    if (import || !any_import) place = statement.to();
    any_import = any_import || import;
  }
  return place == 0 ? (text.starts_with("\xef\xbb\xbf") ? 3 : 0) : line_end(text, place);
}

}  // namespace lockstep
