#include "fix/facts/value_origins.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <tuple>

namespace lockstep {
namespace {

// What a model goes through and stays what it is.
constexpr std::array<std::string_view, 10> kPassThrough = {
    "to", "cuda", "cpu", "train", "eval", "half", "bfloat16", "float", "double", "requires_grad_"};

}  // namespace

ValueOrigins::ValueOrigins(const Project& project, const TrainingCode& code) : project_(project) {
  std::set<FileId> files = {code.script};
  for (const CallAt& item : code.all) {
    files.insert(item.file);
    calls_.emplace(item.call->last_name(), item);
    call_nodes_.emplace(std::pair(item.file, item.call->node.index()), item.call);
  }
  for (const FileId file : files)
    if (const PythonModule* const module = project.file(file).python())
      for (const PythonFunction& entry : module->functions())
        functions_.emplace(entry.name, Function{file, entry.node});
}

// Whether a name as it is called in one file can be something of another: what is imported by name
// is that file's or no other's.
bool ValueOrigins::may_mean(FileId from, std::string_view callee, FileId file) const {
  const std::string_view head = callee.substr(0, callee.find('.'));
  const bool method = callee.find('.') != std::string_view::npos;
  bool any = false;
  for (const PythonImport& import : project_.file(from).python()->imports()) {
    const std::string_view known =
        !import.alias.empty()  ? std::string_view(import.alias)
        : !import.name.empty() ? std::string_view(import.name)
                               : std::string_view(import.module).substr(0, import.module.find('.'));
    if (known != head) continue;
    any = true;
    const auto module = project_.module(from, import.module);
    const auto part =
        import.name.empty()
            ? std::nullopt
            : project_.module(
                  from, import.module + (import.module.ends_with('.') ? "" : ".") + import.name);
    if (module == file || part == file ||
        (!module && !part &&
         project_.file(file).path().stem() == import.module.substr(import.module.rfind('.') + 1)))
      return true;
  }
  if (any) return false;
  return method || from == file ||
         std::any_of(project_.file(from).python()->imports().begin(),
                     project_.file(from).python()->imports().end(),
                     [](const PythonImport& import) { return import.name == "*"; });
}

const ValueOrigins::Function* ValueOrigins::function(FileId file, std::string_view callee) const {
  const auto dot = callee.rfind('.');
  const auto [first, last] =
      functions_.equal_range(callee.substr(dot == std::string_view::npos ? 0 : dot + 1));
  const Function* found = nullptr;
  for (auto row = first; row != last; ++row) {
    if (!may_mean(file, callee, row->second.file)) continue;
    if (found != nullptr) return nullptr;
    found = &row->second;
  }
  return found;
}

std::vector<CallAt> ValueOrigins::callers(FileId file, Node function) const {
  const std::string_view own = function.field("name").text();
  std::vector<CallAt> found;
  const auto [first, last] = calls_.equal_range(
      own == "__init__" ? function.enclosing("class_definition").field("name").text() : own);
  for (auto call = first; call != last; ++call)
    if (may_mean(call->second.file, call->second.call->callee, file)) found.push_back(call->second);
  return found;
}

const PythonCall* ValueOrigins::call_at(FileId file, Node node) const {
  const auto found = call_nodes_.find({file, node.index()});
  return found == call_nodes_.end() ? nullptr : found->second;
}

std::vector<CallAt> ValueOrigins::calls(FileId file, Node expression,
                                        std::initializer_list<std::string_view> names) const {
  std::vector<CallAt> found;
  for (const Origin& origin : of(file, expression).all)
    if (const PythonCall* const call = call_at(origin.file, origin.expression);
        call != nullptr && std::ranges::find(names, call->last_name()) != names.end())
      found.push_back({origin.file, call});
  return found;
}

Origins ValueOrigins::of(FileId first_file, Node first) const {
  return followed(first_file, first, 0);
}

Origins ValueOrigins::followed(FileId first_file, Node first, int depth) const {
  struct Step {
    FileId file;
    Node node;
    std::optional<std::size_t> element;  // of what the node makes
  };
  constexpr int kDeepest = 3;         // dictionaries in dictionaries
  constexpr std::size_t kMost = 200;  // a tangle of names that large is not understood anyhow
  Origins result;
  std::vector<Step> open = {{first_file, first, std::nullopt}};
  std::set<std::tuple<FileId, std::uint32_t, std::size_t>> seen;
  const auto leaf = [&](const Step& step) { result.all.push_back({step.file, step.node}); };

  const auto name_of_scope = [&](const Step& step, const std::string& name) {
    const PythonModule& module = *project_.file(step.file).python();
    bool any = false;
    Node scope = step.node.enclosing("function_definition");
    while (true) {
      for (const PythonAssignment& item : module.assignments())
        if (item.target == name && item.function == scope && !item.value.contains(step.node)) {
          open.push_back({step.file, item.value, item.element});
          any = true;
        }
      const auto given =
          std::ranges::find_if(module.functions(), [&](const PythonFunction& function) {
            return function.node == scope &&
                   std::ranges::find(function.parameters, name) != function.parameters.end();
          });
      if (scope && given != module.functions().end()) {
        auto position = static_cast<std::size_t>(std::ranges::find(given->parameters, name) -
                                                 given->parameters.begin());
        if (given->parameters.front() == "self" && position > 0) --position;
        bool called_at_all = false;
        for (const CallAt& call : callers(step.file, scope)) {
          const PythonArgument* const argument = call.call->given(name, position);
          if (argument == nullptr || call.call->has_splat)
            result.complete = false;
          else
            open.push_back({call.file, argument->value, std::nullopt});
          called_at_all = true;
        }
        if (!called_at_all) result.complete = false;
        any = true;
      }
      if (any || !scope) break;
      scope = scope.enclosing("function_definition");
    }
    if (any) return;
    result.complete = false;
    leaf(step);
  };

  while (!open.empty() && seen.size() < kMost) {
    Step step = open.back();
    open.pop_back();
    while (step.node.is("parenthesized_expression")) step.node = step.node.child(0);
    if (!step.node || !seen.emplace(step.file, step.node.index(), step.element.value_or(99)).second)
      continue;
    const PythonModule& module = *project_.file(step.file).python();
    const Node node = step.node;
    if (node.is("identifier")) {
      name_of_scope(step, std::string(node.text()));
    } else if (node.is("attribute") && node.text().starts_with("self.")) {
      bool any = false;
      const Node owner = node.enclosing("class_definition");
      for (const PythonAssignment& item : module.assignments())
        if (item.target == node.text() && owner.contains(item.statement) &&
            !item.value.contains(node)) {
          open.push_back({step.file, item.value, item.element});
          any = true;
        }
      if (!any) {
        result.complete = false;
        leaf(step);
      }
    } else if ((node.is("tuple") || node.is("expression_list") || node.is("list")) &&
               step.element) {
      const auto items = node.children();
      if (*step.element < items.size())
        open.push_back({step.file, items[*step.element], std::nullopt});
      else
        result.complete = false;
    } else if (node.is("conditional_expression")) {
      open.push_back({step.file, node.child(0), step.element});
      open.push_back({step.file, node.child(2), step.element});
    } else if (node.is("boolean_operator")) {
      open.push_back({step.file, node.field("left"), step.element});
      open.push_back({step.file, node.field("right"), step.element});
    } else if (node.is("subscript")) {
      // loaders["train"] of a dictionary that is written out.
      const auto key = string_value(node.field("subscript"));
      const Origins owners =
          depth < kDeepest ? followed(step.file, node.field("value"), depth + 1) : Origins{};
      for (const Origin& owner : owners.all)
        for (const Node& pair : owner.expression.children())
          if (pair.is("pair") &&
              (!key || !string_value(pair.field("key")) || string_value(pair.field("key")) == key))
            open.push_back({owner.file, pair.field("value"), std::nullopt});
      leaf(step);
    } else if (const PythonCall* const call = node.is("call") ? call_at(step.file, node) : nullptr;
               call != nullptr) {
      leaf(step);
      if (std::ranges::find(kPassThrough, call->last_name()) != kPassThrough.end())
        open.push_back({step.file, node.field("function").field("object"), std::nullopt});
      if (const Function* const made_by = function(step.file, call->callee))
        for (const Node& statement : made_by->node.descendants("return_statement"))
          if (statement.enclosing("function_definition") == made_by->node && statement.child(0))
            open.push_back({made_by->file, statement.child(0), step.element});
    } else {
      leaf(step);
    }
  }
  if (!open.empty()) result.complete = false;
  return result;
}

}  // namespace lockstep
