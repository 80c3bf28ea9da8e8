#include "fix/facts/value_origins.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

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
bool ValueOrigins::may_mean(FileId from, std::string_view callee, FileId file,
                            Node function) const {
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
  // model.train() is a method of whatever model is, and no function train() of a module.
  if (method) return static_cast<bool>(function.enclosing("class_definition"));
  return from == file ||
         std::ranges::find(project_.file(from).python()->imports(), "*", &PythonImport::name) !=
             project_.file(from).python()->imports().end();
}

const ValueOrigins::Function* ValueOrigins::function(FileId file, std::string_view callee) const {
  const auto dot = callee.rfind('.');
  const auto [first, last] =
      functions_.equal_range(callee.substr(dot == std::string_view::npos ? 0 : dot + 1));
  const Function* found = nullptr;
  for (auto row = first; row != last; ++row) {
    if (!may_mean(file, callee, row->second.file, row->second.node)) continue;
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
    if (may_mean(call->second.file, call->second.call->callee, file, function))
      found.push_back(call->second);
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

// The way back from one expression: what is still to be looked at, and where it ended.
class ValueOrigins::Trail {
 public:
  Trail(const ValueOrigins& origins, int depth) : origins_(origins), depth_(depth) {}

  Origins from(FileId file, Node expression) {
    constexpr std::size_t kMost = 200;  // a tangle of names that large is not understood anyhow
    open_ = {{file, expression, std::nullopt}};
    while (!open_.empty() && seen_.size() < kMost) {
      Step step = open_.back();
      open_.pop_back();
      while (step.node.is("parenthesized_expression")) step.node = step.node.child(0);
      if (step.node &&
          seen_.emplace(step.file, step.node.index(), step.element.value_or(99)).second)
        take(step);
    }
    if (!open_.empty()) result_.complete = false;
    return std::move(result_);
  }

 private:
  struct Step {
    FileId file;
    Node node;
    std::optional<std::size_t> element;  // of what the node makes
  };

  void take(const Step& step) {
    const Node node = step.node;
    if (node.is("identifier")) {
      back_from_name(step);
    } else if (node.is("attribute") && node.text().starts_with("self.")) {
      back_from_attribute(step);
    } else if (step.element &&
               (node.is("tuple") || node.is("expression_list") || node.is("list"))) {
      const auto items = node.children();
      if (*step.element < items.size())
        open_.push_back({step.file, items[*step.element], std::nullopt});
      else
        result_.complete = false;
    } else if (node.is("conditional_expression")) {
      open_.push_back({step.file, node.child(0), step.element});
      open_.push_back({step.file, node.child(2), step.element});
    } else if (node.is("boolean_operator")) {
      open_.push_back({step.file, node.field("left"), step.element});
      open_.push_back({step.file, node.field("right"), step.element});
    } else if (node.is("subscript")) {
      back_from_subscript(step);
    } else {
      back_from_call(step);
    }
  }

  void end_at(const Step& step) { result_.all.push_back({step.file, step.node}); }
  void lose_the_way_at(const Step& step) {
    result_.complete = false;
    end_at(step);
  }

  // A name is looked for in its own function, then in the functions around it, then in the file.
  void back_from_name(const Step& step) {
    const std::string name(step.node.text());
    Node scope = step.node.enclosing("function_definition");
    while (true) {
      const bool is_assigned = back_to_assignments(step, name, scope);
      const bool is_given = scope && back_to_callers(step, name, scope);
      if (is_assigned || is_given) return;
      if (!scope) break;
      scope = scope.enclosing("function_definition");
    }
    lose_the_way_at(step);
  }

  bool back_to_assignments(const Step& step, const std::string& name, Node scope) {
    bool any = false;
    for (const PythonAssignment& item : module_of(step).assignments())
      if (item.target == name && item.function == scope && !item.value.contains(step.node)) {
        open_.push_back({step.file, item.value, item.element});
        any = true;
      }
    return any;
  }

  // True: the name is a parameter of the function.
  bool back_to_callers(const Step& step, const std::string& name, Node scope) {
    const auto& functions = module_of(step).functions();
    const auto function = std::ranges::find(functions, scope, &PythonFunction::node);
    if (function == functions.end()) return false;
    const auto& parameters = function->parameters;
    const auto parameter = std::ranges::find(parameters, name);
    if (parameter == parameters.end()) return false;
    auto position = static_cast<std::size_t>(parameter - parameters.begin());
    if (parameters.front() == "self" && position > 0) --position;
    const std::vector<CallAt> callers = origins_.callers(step.file, scope);
    if (callers.empty()) result_.complete = false;
    for (const CallAt& call : callers) {
      const PythonArgument* const argument = call.call->given(name, position);
      if (argument == nullptr || call.call->has_splat)
        result_.complete = false;
      else
        open_.push_back({call.file, argument->value, std::nullopt});
    }
    return true;
  }

  void back_from_attribute(const Step& step) {
    bool any = false;
    const Node owner = step.node.enclosing("class_definition");
    for (const PythonAssignment& item : module_of(step).assignments())
      if (item.target == step.node.text() && owner.contains(item.statement) &&
          !item.value.contains(step.node)) {
        open_.push_back({step.file, item.value, item.element});
        any = true;
      }
    if (!any) lose_the_way_at(step);
  }

  // loaders["train"] of a dictionary that is written out.
  void back_from_subscript(const Step& step) {
    constexpr int kDeepest = 3;  // dictionaries in dictionaries
    const auto key = string_value(step.node.field("subscript"));
    const Origins owners =
        depth_ < kDeepest ? Trail(origins_, depth_ + 1).from(step.file, step.node.field("value"))
                          : Origins{};
    for (const Origin& owner : owners.all)
      for (const Node& pair : owner.expression.children()) {
        if (!pair.is("pair")) continue;
        const auto own_key = string_value(pair.field("key"));
        if (!key || !own_key || own_key == key)
          open_.push_back({owner.file, pair.field("value"), std::nullopt});
      }
    end_at(step);
  }

  // To what a function returns, and to what it is called on where it hands that through.
  void back_from_call(const Step& step) {
    end_at(step);
    if (!step.node.is("call")) return;
    const PythonCall* const call = origins_.call_at(step.file, step.node);
    if (call == nullptr) return;
    if (std::ranges::find(kPassThrough, call->last_name()) != kPassThrough.end())
      open_.push_back({step.file, step.node.field("function").field("object"), std::nullopt});
    if (const Function* const made_by = origins_.function(step.file, call->callee))
      for (const Node& statement : made_by->node.descendants("return_statement"))
        if (statement.enclosing("function_definition") == made_by->node && statement.child(0))
          open_.push_back({made_by->file, statement.child(0), step.element});
  }

  const PythonModule& module_of(const Step& step) const {
    return *origins_.project_.file(step.file).python();
  }

  const ValueOrigins& origins_;
  int depth_;
  Origins result_;
  std::vector<Step> open_;
  std::set<std::tuple<FileId, std::uint32_t, std::size_t>> seen_;
};

Origins ValueOrigins::of(FileId file, Node expression) const {
  return Trail(*this, 0).from(file, expression);
}

}  // namespace lockstep
