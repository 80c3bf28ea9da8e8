#include "fix/facts/lightning_code.hpp"

#include <algorithm>
#include <string>

#include "fix/facts/training_loop.hpp"
#include "fix/python/statements.hpp"

namespace lockstep {
namespace {

Node method_of(Node owner, std::string_view name) {
  for (const Node& function : owner.descendants("function_definition"))
    if (function.field("name").text() == name && function.enclosing("class_definition") == owner)
      return function;
  return {};
}

// The function and the methods that it calls by self, two steps deep.
std::vector<Node> with_called_methods(const PythonModule& module, Node owner, Node function) {
  constexpr std::size_t kMost = 8;
  std::vector<Node> functions = {function};
  for (std::size_t next = 0; next < functions.size() && functions.size() < kMost; ++next)
    for (const PythonCall* const call : calls_in_every_run(module, functions[next])) {
      if (!call->callee.starts_with("self.") || call->callee.find('.', 5) != std::string::npos)
        continue;
      const Node called = method_of(owner, call->last_name());
      // its passes are torch's
      if (called && called.field("name").text() != "forward" &&
          std::ranges::find(functions, called) == functions.end())
        functions.push_back(called);
    }
  return functions;
}

// A module's, and not a strategy's of some other library that has a method of that name.
bool is_a_lightning_module(const PythonClass& entry) {
  const bool by_name = std::ranges::any_of(
      entry.bases, [](const std::string& base) { return base.ends_with("LightningModule"); });
  return by_name || (method_of(entry.node, "configure_optimizers") && !entry.bases.empty());
}

}  // namespace

bool speaks_of_lightning(std::string_view text) {
  return text.find("ightning") != std::string_view::npos;
}

bool is_lightning_trainer(const PythonCall& call) {
  return call.last_name() == "Trainer" && (call.full_name.starts_with("lightning.") ||
                                           call.full_name.starts_with("pytorch_lightning."));
}

bool has_a_lightning_trainer(const Project& project) {
  for (FileId file = 0; file < project.size(); ++file) {
    const std::string& text = project.file(file).text();
    for (const char* word : {"Trainer(", "LightningCLI(", "instantiate(", "Trainer.from_"})
      if (text.find(word) != std::string::npos) return true;
  }
  return false;
}

std::vector<const PythonCall*> calls_in_every_run(const PythonModule& module, Node function) {
  std::vector<const PythonCall*> found;
  for (const PythonCall& call : module.calls())
    if (function.contains(call.node) && function_around(call.node) == function &&
        in_every_turn(function.field("body"), call.node))
      found.push_back(&call);
  return found;
}

std::vector<LightningStep> lightning_steps(const PythonModule& module) {
  std::vector<LightningStep> steps;
  for (const PythonClass& entry : module.classes()) {
    const Node step = method_of(entry.node, "training_step");
    if (step && is_a_lightning_module(entry))
      steps.push_back({step, with_called_methods(module, entry.node, step)});
  }
  return steps;
}

std::vector<const PythonCall*> lightning_loaders(const PythonModule& module) {
  std::vector<Node> makers;
  for (const PythonClass& entry : module.classes())
    if (const Node maker = method_of(entry.node, "train_dataloader"))
      for (const Node& function : with_called_methods(module, entry.node, maker))
        makers.push_back(function);
  std::vector<Node> given;  // to fit()
  for (const PythonCall& call : module.calls())
    if (call.last_name() == "fit")
      if (const PythonArgument* const loaders = call.given("train_dataloaders", 1))
        given.push_back(loaders->value);
  std::vector<const PythonCall*> found;
  for (const PythonCall& call : module.calls()) {
    if (call.last_name() != "DataLoader") continue;
    const bool is_made =
        std::ranges::any_of(makers, [&](const Node& maker) { return maker.contains(call.node); });
    const bool is_given = std::ranges::any_of(given, [&](const Node& value) {
      return value == call.node ||
             (value.is("identifier") && module.only_value_of(value.text()) == call.node);
    });
    if (is_made || is_given) found.push_back(&call);
  }
  return found;
}

}  // namespace lockstep
