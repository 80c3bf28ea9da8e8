// Finds collectives beside DDP's own in every step: a metric averaged, a barrier.
//
// Why it costs: each is a meeting of all ranks, and a wait for the slowest, of its own; the host
// stands still until it is over where the value is read, and a barrier always. A barrier between
// steps does nothing that DDP's all-reduce does not.
//
// Gradients that are averaged by hand (a loop over parameters) are not metrics. A metric's
// all-reduce is shown only: what is done with the value afterwards decides whether it can be left
// out of most steps.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "fix/rules/loops/loop_rules.hpp"

namespace lockstep {
namespace {

bool is_about_gradients(const PythonCall& call) {
  const Node around = loop_around(call.node);
  return call.node.text().find("grad") != std::string_view::npos ||
         call.node.text().find("param") != std::string_view::npos ||
         (around && around.field("right").text().find("param") != std::string_view::npos);
}

// reduce_mean, average_over_ranks, all_gather_losses: by its name a metric's. A gather before
// backward() may be part of the loss.
bool sounds_like_a_metric(std::string_view name, bool after_backward) {
  for (const char* word : {"reduce", "average", "avg", "mean"})
    if (name.find(word) != std::string_view::npos) return true;
  return after_backward && (name.find("gather") != std::string_view::npos ||
                            name.find("sync") != std::string_view::npos);
}

// The first collective in a function of the project.
const PythonCall* collective_in(const ScriptFacts& script, const ValueOrigins::Function& function) {
  for (const CallAt& item : script.code.all)
    if (item.file == function.file && function.node.contains(item.call->node) &&
        is_collective(*item.call) && !is_about_gradients(*item.call))
      return item.call;
  return nullptr;
}

}  // namespace

void collectives_each_step(const RuleInput& input, const ScriptFacts& script,
                           std::vector<CodeFinding>& findings) {
  if (!is_hand_made_ddp(script)) return;
  for (const TrainingLoop& loop : script.loops) {
    if (wrapped_model(script, loop).empty()) continue;
    std::map<std::string, std::size_t> told;
    for (const PythonCall* const call : calls_in_turn(input, loop)) {
      if (!in_every_turn(loop.loop, call->node)) continue;
      const ValueOrigins::Function* const function =
          is_collective(*call) ? nullptr : script.origins->function(loop.file, call->callee);
      const PythonCall* const collective = is_collective(*call) ? call
                                           : function != nullptr && call->arguments.size() <= 3
                                               ? collective_in(script, *function)
                                               : nullptr;
      if (collective == nullptr || is_about_gradients(*collective)) continue;
      const bool after_backward = call->node.from() > loop.backward->node.from();
      if (function != nullptr ? !sounds_like_a_metric(call->last_name(), after_backward)
                              : !after_backward && call->last_name() != "barrier")
        continue;
      const bool barrier = call->last_name() == "barrier";
      // reduce_mean(loss), reduce_mean(acc1), reduce_mean(acc5): one habit, told once.
      if (const auto known = told.find(call->callee); known != told.end() && !barrier) {
        findings[known->second].where.push_back(place_of(loop.file, call->node));
        continue;
      }
      told[call->callee] = findings.size();
      const Node statement = statement_of(call->node);
      const bool alone = statement.is("expression_statement") && statement.child(0) == call->node;
      propose(
          {.code = FindingCode::reduce_every_step,
           .severity = Severity::warning,
           .confidence = barrier ? 0.85 : 0.7,
           .where = {place_of(loop.file, call->node)},
           .reason =
               barrier ? "a barrier in every step: all ranks stop and wait for the slowest, though "
                         "DDP's all-reduce already keeps them together"
                       : fmt::format("{} in every step is a meeting of all ranks beside DDP's own",
                                     call->callee),
           .description = barrier ? "take the barrier away"
                                  : "add the metric up on each rank, and average it over the ranks "
                                    "every few steps or at the end of the epoch",
           .effect = "one wait for the slowest rank less in a step",
           .changes = barrier ? "nothing, unless ranks hand each other files between steps; times "
                                "of steps that are logged are then each rank's own"
                              : "how often the metric is known",
           .files = barrier && alone
                        ? std::vector<Change>{{loop.file,
                                               take_away(text_of(input, loop.file), statement)}}
                        : std::vector<Change>{}},
          findings);
    }
  }
}

}  // namespace lockstep
