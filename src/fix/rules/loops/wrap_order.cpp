// Finds torch.compile() on a model before DDP wraps it.
//
// Why it may cost: compiled after the wrap, DDPOptimizer cuts the graph at the buckets, so that the
// all-reduce of one runs beside the backward of the next; compiled before, backward is one piece
// and the gradients come late. Both orders are in use (nanoGPT compiles first), and which is faster
// depends on the model: shown only.
#include "fix/rules/loops/loop_rules.hpp"

namespace lockstep {

void wrap_order(const RuleInput&, const ScriptFacts& script, std::vector<CodeFinding>& findings) {
  if (!is_hand_made_ddp(script)) return;
  for (const CallAt& wrap : script.code.wraps) {
    const PythonArgument* const model = wrap.call->given("module", 0);
    if (model == nullptr) continue;
    for (const Origin& origin : script.origins->of(wrap.file, model->value).all) {
      const PythonCall* const made = script.origins->call_at(origin.file, origin.expression);
      const bool is_later = made != nullptr && origin.file == wrap.file &&
                            made->node.from() > wrap.call->node.from() &&
                            !wrap.call->node.contains(made->node);  // DDP(torch.compile(model))
      if (made == nullptr || made->full_name != "torch.compile" || is_later) continue;
      propose({.code = FindingCode::compile_before_ddp,
               .severity = Severity::info,
               .confidence = 0.7,
               .where = {place_of(origin.file, made->node), place_of(wrap.file, wrap.call->node)},
               .reason = "the model is compiled before DDP wraps it: backward is one graph, and "
                         "the all-reduce of early buckets cannot run beside it",
               .description =
                   "try torch.compile(DDP(model)), and keep what is faster: both orders are in use",
               .effect = "gradients travel while backward goes on",
               .changes =
                   "nothing in the numbers; names in the checkpoint (_orig_mod.) stand elsewhere"},
              findings);
      break;
    }
  }
}

}  // namespace lockstep
