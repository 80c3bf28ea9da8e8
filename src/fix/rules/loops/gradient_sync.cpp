// Finds accumulation under DDP that averages the gradients in every pass.
//
// Why it costs: DDP reduces gradients in every backward(). Of k passes for one update only the last
// needs it; the others move the same bytes for nothing: k - 1 of k all-reduces. no_sync() or
// require_backward_grad_sync = False around them leaves them out, and DDP adds the sums up.
//
// The patch is one line before the pass: model.require_backward_grad_sync = <what the update asks>.
// The condition has to be known there: it may ask the loop's counter and what does not change
// within a turn, and nothing else.
#include <fmt/format.h>

#include <algorithm>

#include "fix/rules/accumulation.hpp"

namespace lockstep {
namespace {

// Whether a condition says the same at the turn's start: nothing that it asks is set within the
// turn.
bool is_known_at_start(const RuleInput& input, const TrainingLoop& loop, Node condition) {
  const auto names = names_in(condition);
  return std::ranges::none_of(
      names, [&](const std::string& name) { return is_assigned_in(input, loop, name); });
}

}  // namespace

bool leaves_syncs_out(const RuleInput& input, const ScriptFacts& script) {
  const auto files = files_of(script);
  return std::ranges::any_of(files, [&](FileId file) {
    return text_of(input, file).find("no_sync") != std::string_view::npos ||
           text_of(input, file).find("require_backward_grad_sync") != std::string_view::npos;
  });
}

std::vector<Edit> sync_with_the_update(const RuleInput& input, const TrainingLoop& loop,
                                       std::string_view model) {
  const std::string_view text = text_of(input, loop.file);
  std::string condition;
  std::vector<Edit> edits;
  Node passes = loop.loop;
  if (const Node asked = loop.boundary.field("condition");
      asked && is_known_at_start(input, loop, asked)) {
    condition = std::string(asked.text());
    edits.push_back({asked.from(), asked.to(), condition});
  }
  // for micro in range(k): … ; update
  if (loop.passes) {
    passes = loop.passes;
    const Node range = passes.field("right");
    const auto items = range.field("arguments").children();
    if (passes.field("left").is("identifier") && range.field("function").text() == "range" &&
        items.size() == 1)
      condition = fmt::format("{} == {} - 1", passes.field("left").text(), items.front().text());
  }
  if (condition.empty() || condition.find('\n') != std::string::npos) return {};
  auto line = first_in_body(text, passes,
                            fmt::format("{}.require_backward_grad_sync = {}", model, condition));
  if (line.empty()) return {};
  edits.insert(edits.end(), line.begin(), line.end());
  return in_order(std::move(edits));
}

void gradient_sync(const RuleInput& input, const ScriptFacts& script,
                   std::vector<CodeFinding>& findings) {
  if (!is_hand_made_ddp(script) || leaves_syncs_out(input, script)) return;
  for (const TrainingLoop& loop : script.loops) {
    const std::string model = wrapped_model(script, loop);
    if (!loop.accumulates() || loop.by_library || loop.optimizers != 1 || model.empty() ||
        is_assigned_in(input, loop, model))
      continue;
    std::vector<Change> files;
    // Clipping in every pass would measure gradients of one rank alone.
    const auto turn = calls_in_turn(input, loop);
    const bool clips_each_pass = std::ranges::any_of(turn, [&](const PythonCall* call) {
      return call->last_name().starts_with("clip_grad") &&
             !(loop.boundary && loop.boundary.contains(call->node)) &&
             !(loop.passes && !loop.passes.contains(call->node));
    });
    // An update after the loop would be one of gradients that were never averaged.
    if (auto edits = steps_after(input, loop) || clips_each_pass
                         ? std::vector<Edit>{}
                         : sync_with_the_update(input, loop, model);
        !edits.empty())
      files.push_back({loop.file, std::move(edits)});
    propose({.code = FindingCode::sync_every_micro_step,
             .confidence = 0.85,
             .where = {place_of(loop.file, loop.backward->node),
                       place_of(loop.file, loop.boundary ? loop.boundary : loop.passes)},
             .reason = "gradients are averaged over all ranks in every pass, though only some end "
                       "with an update",
             .description = "average only in the pass that the update follows",
             .effect = "one all-reduce an update instead of one a pass",
             .changes = "gradients are added up on each rank first: the last digits",
             .files = std::move(files)},
            findings);
  }
}

}  // namespace lockstep
