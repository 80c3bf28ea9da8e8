// Finds training passes that go around DDP: the bare module is called, and gradients are never
// averaged.
//
// Why it matters: DDP hooks the forward of its wrapper. `ddp = DDP(net)` and then net(x), or
// model.module(x), runs without it: every rank trains a model of its own, silently. Only passes
// that lead to backward() count; evaluation and generation use the bare module rightly.
#include <fmt/format.h>

#include <algorithm>

#include "fix/rules/loops/loop_rules.hpp"

namespace lockstep {
namespace {

// The wrapper of a name: ddp = DDP(net) gives "ddp" for "net", seen from the loop.
std::string wrapper_of(const RuleInput& input, const ScriptFacts& script, const TrainingLoop& loop,
                       std::string_view name) {
  const PythonModule& module = module_of(input, loop.file);
  for (const CallAt& wrap : script.code.wraps) {
    const PythonArgument* const inner = wrap.call->given("module", 0);
    if (wrap.file != loop.file || inner == nullptr || inner->value.text() != name) continue;
    for (const PythonAssignment& item : module.assignments())
      if (item.value == wrap.call->node && item.target != name &&
          (item.function == loop.function || !item.function))
        return item.target;
  }
  return "";
}

// loss = model.module.get_loss(x): what backward() goes through is no pass of DDP's.
bool trains_by_a_method(const ScriptFacts& script, const TrainingLoop& loop,
                        const PythonCall& call) {
  const Node object = call.node.field("function").field("object");
  if (!object.is("attribute") || object.field("attribute").text() != "module" ||
      wraps_of(script, loop.file, object.field("object")).empty())
    return false;
  const Node loss = loss_of(loop);
  for (Node outer = call.node.parent(); outer; outer = outer.parent()) {
    if (outer.is("call")) return false;  // float(model.module.scale())
    if (outer.is("assignment"))
      return loss.is("identifier") &&
             (names_in(outer.field("left")).contains(std::string(loss.text())) ||
              outer.field("left").text() == loss.text());
    if (outer.is("block")) return false;
  }
  return false;
}

}  // namespace

void bare_module(const RuleInput& input, const ScriptFacts& script,
                 std::vector<CodeFinding>& findings) {
  if (!is_hand_made_ddp(script)) return;
  for (const TrainingLoop& loop : script.loops) {
    if (loop.by_library || !wrapped_model(script, loop).empty()) continue;
    for (const PythonCall* const call : calls_in_turn(input, loop)) {
      const Node callee = call->node.field("function");
      if (call->node.from() > loop.backward->node.from() || !in_every_turn(loop.loop, call->node) ||
          call->arguments.empty())
        continue;
      if (trains_by_a_method(script, loop, *call)) {
        propose(
            {.code = FindingCode::unwrapped_module_called,
             .severity = Severity::critical,
             .safety = FixSafety::manual,
             .confidence = 0.85,
             .where = {place_of(loop.file, call->node)},
             .reason = fmt::format("the loss comes from {}, which goes around DDP: gradients are "
                                   "never averaged, and every rank trains a model of its own",
                                   callee.text()),
             .description = fmt::format("let forward() compute it, and call {}(...)",
                                        callee.field("object").field("object").text()),
             .effect = "gradients are averaged over the ranks",
             .changes = "the model: until now it was that of one rank, trained on its share of "
                        "the data"},
            findings);
        break;
      }
      std::string better;
      if (callee.is("attribute") && callee.field("attribute").text() == "module" &&
          !wraps_of(script, loop.file, callee.field("object")).empty())
        better = std::string(callee.field("object").text());
      else if (callee.is("identifier"))
        better = wrapper_of(input, script, loop, callee.text());
      if (better.empty()) continue;
      propose({.code = FindingCode::unwrapped_module_called,
               .severity = Severity::critical,
               .confidence = 0.9,
               .where = {place_of(loop.file, call->node)},
               .reason = fmt::format("the training pass calls {}, which goes around DDP: gradients "
                                     "are never averaged, and every rank trains a model of its own",
                                     callee.text()),
               .description = fmt::format("call {}", better),
               .effect = "gradients are averaged over the ranks",
               .changes =
                   "the model: until now it was that of one rank, trained on its share of the data",
               .files = {{loop.file, {{callee.from(), callee.to(), better}}}}},
              findings);
      break;
    }
  }
}

}  // namespace lockstep
