// Finds accumulation whose updates come at the wrong turn, leave the last passes out, or add
// gradients up without dividing.
//
// Why it matters: with `if i % 4 == 0` and i from 0 the first update has one pass in it, and so
// much less gradient; the passes after the last boundary of an epoch leak into the next one, or are
// lost; and a loss that is not divided by the number of passes makes steps that many times larger.
// All three train, and none says a word.
//
// An update that stands before the pass (`if i % k == 0 and i > 0: update` at the head of the turn)
// counts what came before it, and is right.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "fix/rules/accumulation.hpp"

namespace lockstep {
namespace {

std::string spaced(Node period) {
  return period.is("identifier") || period.is("integer") || period.is("attribute")
             ? std::string(period.text())
             : fmt::format("({})", period.text());
}

// Whether the loss is made smaller anywhere in the turn, or by a mean over the passes: a division
// or a product beside it.
bool is_divided(const RuleInput& input, const ScriptFacts& script, const TrainingLoop& loop,
                const EveryFew& few) {
  const Node loss = loss_of(loop);
  // (loss / 4).backward(), or something that is not understood
  if (loss.is("binary_operator") || !loss.is("identifier")) return true;
  const std::string name(loss.text());
  // the author says that the sum is meant
  if (holds_any(lower_case(loop.loop.text()), {"not divide", "n't divide", "without dividing"}))
    return true;
  // bound by `with amp.scale_loss(loss) as scaled_loss`, or elsewhere
  const auto aliases = loop.body().descendants("as_pattern_target");
  if (!is_assigned_in(input, loop, name) ||
      std::ranges::any_of(aliases, [&](const Node& alias) { return alias.text() == name; }))
    return true;
  const auto speaks_of_period = [&](std::string_view text) {
    return text.find('/') != std::string_view::npos ||
           text.find(few.period.text()) != std::string_view::npos;
  };
  for (const Node& item : loop.body().descendants("augmented_assignment"))
    if (item.field("left").text() == name &&
        (item.field("operator").text() == "/=" || item.field("operator").text() == "*="))
      return true;
  for (const PythonAssignment& item : module_of(input, loop.file).assignments())
    if (item.target == name && loop.body().contains(item.statement) &&
        speaks_of_period(item.value.text()))
      return true;
  // The function that makes the loss may be told the number of passes; and a sum is not a mean to
  // begin with.
  // and of `loss = kd_loss + supervised_loss` each may be divided by itself
  for (const Origin& origin : ingredients_of(script, loop.file, loss))
    if (speaks_of_period(origin.expression.text()) ||
        origin.expression.text().find(".sum(") != std::string_view::npos)
      return true;
  return false;
}

// len(loader), is_last, the number of turns: the condition knows where the epoch ends.
bool knows_the_end(Node condition) {
  const std::string_view text = condition.text();
  return text.find("len(") != std::string_view::npos ||
         text.find(" or ") != std::string_view::npos || text.find("last") != std::string_view::npos;
}

// A turn that may end before the update, by `continue` under a condition, leaves passes out on
// purpose.
bool skips_turns(const TrainingLoop& loop) {
  const auto all = loop.body().descendants("continue_statement");
  return std::ranges::any_of(all, [&](const Node& item) {
    return loop_around(item) == loop.loop && item.from() < loop.backward->node.from();
  });
}

// The `if` that decides whether a turn ends with an update.
Node decision_of(const TrainingLoop& loop) { return loop.boundary ? loop.boundary : loop.fork; }

// enumerate()'s, or that of `for i in range(n)`.
std::string counter_of(const TrainingLoop& loop) {
  const Node over = loop.loop.field("right");
  const Node target = loop.loop.field("left");
  const bool counts = loop.counter.empty() && over.field("function").text() == "range" &&
                      over.field("arguments").children().size() == 1 && target.is("identifier");
  return counts ? std::string(target.text()) : loop.counter;
}

// model.require_backward_grad_sync = <the update's condition>: it has to change with it.
Node sync_condition(const RuleInput& input, const TrainingLoop& loop) {
  for (const PythonAssignment& item : module_of(input, loop.file).assignments())
    if (item.target.ends_with(".require_backward_grad_sync") &&
        loop.body().contains(item.statement) &&
        item.value.text() == loop.boundary.field("condition").text())
      return item.value;
  return {};
}

std::string what_changes(const MendedBoundary& mended) {
  std::vector<std::string> changes;
  if (mended.undivided)
    changes.push_back(
        fmt::format("gradients are {} times smaller: with SGD a learning rate tuned "
                    "to the sum has to grow (Adam's kind hardly notices)",
                    mended.period));
  if (mended.loses_tail)
    changes.emplace_back(
        "one update more at the end of an epoch whose passes the window does not divide, of the "
        "passes that are left over");
  else if (mended.off_by_one)
    changes.emplace_back("which passes make up an update");
  return changes.empty() ? "which passes make up an update" : join(changes, "; ");
}

}  // namespace

bool steps_after(const RuleInput& input, const TrainingLoop& loop) {
  const auto& calls = module_of(input, loop.file).calls();
  return std::ranges::any_of(calls, [&](const PythonCall& call) {
    return call.last_name() == "step" && call.callee == loop.update->callee &&
           call.node.from() > loop.loop.to() && function_around(call.node) == loop.function;
  });
}

MendedBoundary mended_boundary(const RuleInput& input, const ScriptFacts& script,
                               const TrainingLoop& loop) {
  MendedBoundary mended;
  const std::string counter = counter_of(loop);
  if (!decision_of(loop) || loop.by_library || loop.optimizers != 1 || counter.empty() ||
      (loop.boundary && loop.update->node.from() < loop.backward->node.from()))
    return mended;
  const Node condition = decision_of(loop).field("condition");
  const auto few = every_few(condition);
  if (!few || !(loop.updates_in_else ? few->differs_from_zero : few->equals_zero) ||
      few->counter != counter || is_assigned_in(input, loop, counter) ||
      number_value(few->period) == 1 || loop.first_count < 0)
    return mended;
  // The same `if` must not be about something else: an optimizer that is stepped rarely on purpose
  // has its gradients cleared in every turn.
  const bool clears_each_turn = std::ranges::any_of(script.code.all, [&](const CallAt& item) {
    return item.file == loop.file && item.call->last_name() == "zero_grad" &&
           loop.body().contains(item.call->node) && in_every_turn(loop.loop, item.call->node);
  });
  if (clears_each_turn) return mended;
  mended.period = spaced(few->period);
  const bool simple = condition.text().find(" and ") == std::string_view::npos &&
                      condition.text().find('\n') == std::string_view::npos &&
                      !knows_the_end(condition);
  const std::string turn = loop.first_count == 0 ? fmt::format("{} + 1", counter) : counter;
  const bool counts_right = loop.first_count == 0 ? few->plus_one : !few->plus_one;
  if (simple && !counts_right && loop.first_count <= 1) {
    mended.off_by_one = true;
    mended.faults.push_back(fmt::format("the first update comes after one pass: `{}` is {} at once",
                                        condition.text(), loop.updates_in_else ? "false" : "true"));
  }
  const bool has_length =
      loop.source && (loop.source.is("identifier") || loop.source.is("attribute")) &&
      !loop.loaders.empty() && !is_streamed(input, script, loop.loaders.front());
  if (simple && has_length && loop.first_count <= 1 && !steps_after(input, loop) &&
      !skips_turns(loop)) {
    mended.loses_tail = true;
    mended.faults.emplace_back(
        "the passes after the last boundary of an epoch have no update of their own");
  }
  if (mended.off_by_one || mended.loses_tail) {
    const std::string_view asks = loop.updates_in_else ? "!=" : "==";
    const std::string window = loop.first_count == 0
                                   ? fmt::format("({}) % {} {} 0", turn, mended.period, asks)
                                   : fmt::format("{} % {} {} 0", turn, mended.period, asks);
    mended.condition =
        window + (mended.loses_tail
                      ? fmt::format(" {} {} {} len({})", loop.updates_in_else ? "and" : "or", turn,
                                    asks, loop.source.text())
                      : "");
  }
  // Both ways of a fork have a loss of their own.
  if (loop.boundary && !is_divided(input, script, loop, *few)) {
    mended.undivided = true;
    mended.faults.push_back(fmt::format(
        "the loss is not divided by {}: gradients are the sum of the passes, not their mean",
        few->period.text()));
  }
  return mended;
}

void accumulation_boundary(const RuleInput& input, const ScriptFacts& script,
                           std::vector<CodeFinding>& findings) {
  for (const TrainingLoop& loop : script.loops) {
    const MendedBoundary mended = mended_boundary(input, script, loop);
    if (mended.faults.empty()) continue;
    std::string reason;
    for (const std::string& fault : mended.faults) reason += (reason.empty() ? "" : "; ") + fault;
    const Node condition = decision_of(loop).field("condition");
    const Node loss = loss_of(loop);
    std::vector<Edit> edits;
    if (!mended.condition.empty())
      edits.push_back({condition.from(), condition.to(), mended.condition});
    if (mended.undivided) {
      const bool bare = loss == loop.backward->node.field("function").field("object");
      edits.push_back(
          {loss.from(), loss.to(),
           fmt::format(fmt::runtime(bare ? "({} / {})" : "{} / {}"), loss.text(), mended.period)});
    }
    // Syncs that are left out by the old condition would leave the new updates without theirs.
    const Node sync = loop.boundary ? sync_condition(input, loop) : Node();
    if (sync && !mended.condition.empty())
      edits.push_back({sync.from(), sync.to(), mended.condition});
    // A fork's own condition is that of its no_sync().
    const bool tied =
        !sync && !loop.fork && !mended.condition.empty() && leaves_syncs_out(input, script);
    if (tied) edits.clear();
    propose({.code = FindingCode::accumulation_boundary,
             .severity = mended.is_patched() ? Severity::warning : Severity::info,
             .safety = mended.is_patched() ? FixSafety::unsafe : FixSafety::manual,
             .confidence = mended.off_by_one ? 0.9 : 0.75,
             .where = {place_of(loop.file, decision_of(loop))},
             .reason = std::move(reason),
             .description = fmt::format(
                 "update after every whole window{}{}{}",
                 mended.loses_tail ? ", and at the end of the epoch" : "",
                 mended.undivided ? fmt::format(", each pass divided by {}", mended.period) : "",
                 tied ? "; the condition of the gradient sync must change with it" : ""),
             .effect = "every update has its passes, and every pass its update",
             .changes = what_changes(mended),
             .files = {{loop.file, in_order(std::move(edits))}}},
            findings);
  }
}

}  // namespace lockstep
