// Layers that a model's class makes and no pass of it uses: DDP waits for their gradients, and ends
// the run in its second step.
#include <algorithm>
#include <set>

#include "fix/rules/conversion/to_ddp.hpp"

namespace lockstep {
namespace {

// The class that the model is made of, where it stands in the project.
const PythonClass* class_of(const PythonModule& module, std::string_view name) {
  const auto found = std::ranges::find(module.classes(), name, &PythonClass::name);
  return found == module.classes().end() ? nullptr : &*found;
}

bool makes_parameters(const PythonCall& call) {
  static const std::set<std::string_view> kLayers = {
      "Linear", "Conv1d",    "Conv2d",      "Conv3d",      "Embedding",       "LSTM",     "GRU",
      "RNN",    "LayerNorm", "BatchNorm1d", "BatchNorm2d", "ConvTranspose2d", "Parameter"};
  return call.full_name.starts_with("torch.nn.") && kLayers.contains(call.last_name());
}

std::string unused_part_of(const PythonModule& module, const PythonClass& type) {
  for (const PythonAssignment& item : module.assignments()) {
    if (!type.node.contains(item.statement) || !item.target.starts_with("self.")) continue;
    const auto made = std::ranges::find_if(
        module.calls(), [&](const PythonCall& call) { return call.node == item.value; });
    if (made == module.calls().end() || !makes_parameters(*made)) continue;
    // Asked for as an attribute anywhere, by a name as text, or all at once: it may be used.
    const std::string name = item.target.substr(5);
    std::size_t uses = 0;
    for (const Node& attribute : module.tree().root().descendants("attribute"))
      if (attribute.field("attribute").text() == name && attribute.text() != item.target) ++uses;
    for (const Node& attribute : type.node.descendants("attribute"))
      if (attribute.text() == item.target && !item.statement.contains(attribute)) ++uses;
    const std::string_view text = type.node.text();
    const bool by_other_ways = text.find("getattr") != std::string_view::npos ||
                               text.find("children()") != std::string_view::npos ||
                               text.find("modules()") != std::string_view::npos ||
                               text.find("__dict__") != std::string_view::npos;
    if (uses == 0 && !by_other_ways) return item.target;
  }
  return "";
}

}  // namespace

std::string part_that_no_pass_uses(const RuleInput& input, const ScriptFacts& script,
                                   const SingleProcessScript& single) {
  for (const CallAt& item : script.code.all)
    for (const FileId file : files_of(script)) {
      const PythonModule& module = module_of(input, file);
      const PythonClass* const type = class_of(module, item.call->last_name());
      const Node statement = statement_of(item.call->node);
      if (type == nullptr || item.file != single.file ||
          statement.child(0).field("left").text() != single.model)
        continue;
      if (std::string part = unused_part_of(module, *type); !part.empty()) return part;
    }
  return "";
}

}  // namespace lockstep
