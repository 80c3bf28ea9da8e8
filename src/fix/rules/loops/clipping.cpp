// Finds gradients that are clipped while they are still scaled, or before they are all there.
//
// Why it matters: GradScaler multiplies the loss by up to 65536; clip_grad_norm_(…, 1.0) without
// scaler.unscale_(optimizer) before it clips the scaled gradients, so that every step is thousands
// of times too small. And clipped in every pass of an accumulation, the sum of what was clipped is
// not the clipped sum.
#include <fmt/format.h>

#include <algorithm>

#include "fix/rules/loops/loop_rules.hpp"

namespace lockstep {
namespace {

bool clips(const PythonCall& call) {
  return call.last_name() == "clip_grad_norm_" || call.last_name() == "clip_grad_value_" ||
         call.last_name() == "clip_grad_norm";
}

}  // namespace

void clipping(const RuleInput& input, const ScriptFacts& script,
              std::vector<CodeFinding>& findings) {
  for (const TrainingLoop& loop : script.loops) {
    if (loop.by_library) continue;
    const auto calls = calls_in_turn(input, loop);
    const auto clip =
        std::ranges::find_if(calls, [](const PythonCall* call) { return clips(*call); });
    if (clip == calls.end()) continue;
    const std::string_view text = text_of(input, loop.file);
    const Node statement = statement_of((*clip)->node);
    const bool unscales = std::ranges::any_of(
        calls, [](const PythonCall* call) { return call->last_name() == "unscale_"; });
    const bool scaler_steps = loop.update->callee.find("scaler") != std::string::npos &&
                              loop.update->positional(0) != nullptr;
    if (loop.scales && scaler_steps && !unscales) {
      const std::string scaler = loop.update->callee.substr(0, loop.update->callee.rfind('.'));
      propose(
          {.code = FindingCode::clip_before_unscale,
           .severity = Severity::critical,
           .confidence = 0.95,
           .where = {place_of(loop.file, (*clip)->node)},
           .reason = fmt::format("gradients are clipped while {} still multiplies them by up to "
                                 "65536: every step is clipped to nearly nothing",
                                 scaler),
           .description = fmt::format("unscale before the clip: {}.unscale_({})", scaler,
                                      loop.update->positional(0)->value.text()),
           .effect = "the clip sees the gradients as they are",
           .changes = "steps are as large as was meant: the learning rate may have been tuned "
                      "around the fault",
           // In every pass of an accumulation a second unscale_ would end the run; where the
           // scaler steps under a condition, there may be none without it.
           .files = {{loop.file,
                      (loop.boundary && !loop.boundary.contains((*clip)->node)) ||
                              !stands_under_the_same(loop.loop, loop.update->node, (*clip)->node)
                          ? std::vector<Edit>{}
                          : line_above(text, statement,
                                       fmt::format("{}.unscale_({})", scaler,
                                                   loop.update->positional(0)->value.text()))}}},
          findings);
      continue;
    }
    // Outside of the `if` that the update stands in, after backward(): met in every pass.
    const bool in_each_pass = loop.boundary && !loop.boundary.contains((*clip)->node) &&
                              in_every_turn(loop.loop, (*clip)->node) &&
                              (*clip)->node.from() > loop.backward->node.from() &&
                              (*clip)->node.from() < loop.boundary.from();
    if (!in_each_pass || unscales) continue;
    const Node update = statement_of(loop.update->node);
    propose(
        {.code = FindingCode::clip_before_unscale,
         .confidence = 0.9,
         .where = {place_of(loop.file, (*clip)->node), place_of(loop.file, update)},
         .reason =
             "gradients are clipped in every pass of the accumulation, before their sum is whole",
         .description = "clip once, right before the update",
         .effect = "the clip sees the whole sum, once an update",
         .changes = "the size of steps whose gradients were clipped",
         .files = {{loop.file,
                    statement.is("expression_statement") && statement.child(0) == (*clip)->node
                        ? move_above(text, statement, update)
                        : std::vector<Edit>{}}}},
        findings);
  }
}

}  // namespace lockstep
