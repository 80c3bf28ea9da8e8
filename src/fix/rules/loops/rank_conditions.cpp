// Finds collectives that only some ranks come to, and timeouts that were raised instead.
//
// Why it matters: a barrier, a broadcast or an all-reduce waits until every rank is there. Under
// `if rank == 0` with no counterpart for the others it waits until the timeout (10 minutes with
// NCCL, 30 with Gloo), and then the run ends. A longer timeout makes the wait longer.
//
// Of 20 public `if rank == 0: barrier()` 15 are right: the others meet it under a condition of
// their own. So ways are compared, over calls and files, and not lines (fix/facts/rank_paths).
#include <fmt/format.h>

#include <algorithm>

#include "fix/rules/loops/loop_rules.hpp"

namespace lockstep {
namespace {

// A barrier at the end of `if rank == 0:` was meant for everybody: it moves below the `if`.
std::vector<Edit> barrier_for_all(const RuleInput& input, const SplitPath& split) {
  if (split.lone == nullptr || split.lone->last_name() != "barrier" || split.of_others != "none")
    return {};
  const Node statement = statement_of(split.lone->node);
  const Node block = split.condition.field("consequence");
  const bool direct = block_of(statement) == block && statement.is("expression_statement") &&
                      statement.child(0) == split.lone->node;
  const auto barriers = block.descendants("call");
  const bool only_one = std::ranges::count_if(barriers, [](const Node& call) {
                          return call.field("function").text().ends_with("barrier");
                        }) == 1;
  if (!direct || !only_one || next_statement(statement) ||
      !split.condition.fields("alternative").empty() ||
      !is_bare_rank_test(split.condition.field("condition")))
    return {};
  return move_below(text_of(input, split.file), statement, split.condition);
}

// Hours and minutes of a timedelta, as far as they are numbers.
double minutes_of(Node expression) {
  double minutes = 0;
  for (const Node& argument : expression.descendants("keyword_argument")) {
    const std::string_view name = argument.field("name").text();
    const double value = number_value(argument.field("value")).value_or(0);
    minutes += name == "days"      ? value * 1440
               : name == "hours"   ? value * 60
               : name == "minutes" ? value
               : name == "seconds" ? value / 60
                                   : 0;
  }
  return minutes;
}

// A condition that one rank alone can meet: `if stops_early and rank == 0:`.
bool is_for_some_ranks(Node condition) {
  if (is_bare_rank_test(condition)) return true;
  if (condition.is("parenthesized_expression")) return is_for_some_ranks(condition.child(0));
  return condition.is("boolean_operator") && condition.field("operator").text() == "and" &&
         (is_for_some_ranks(condition.field("left")) ||
          is_for_some_ranks(condition.field("right")));
}

// `if rank == 0 and ...: break` out of a loop in which the others go on to the next all-reduce.
void breaks(const ScriptFacts& script, std::vector<CodeFinding>& findings) {
  if (!is_hand_made_ddp(script)) return;
  std::vector<std::pair<FileId, Node>> loops;
  for (const TrainingLoop* const loop : script.all_loops()) {
    loops.emplace_back(loop->file, loop->loop);
    for (const EpochLoop& epochs : epoch_loops(*script.origins, *loop))
      loops.emplace_back(epochs.file, epochs.loop);
  }
  std::vector<Node> told;
  for (const auto& [file, loop] : loops)
    for (const Node& leave : loop.descendants("break_statement")) {
      if (loop_around(leave) != loop || std::ranges::find(told, leave) != told.end()) continue;
      Node condition;
      for (Node outer = leave.parent(), inner = leave; outer && outer != loop;
           inner = outer, outer = outer.parent())
        if (outer.is("if_statement") && inner == outer.field("consequence") &&
            is_for_some_ranks(outer.field("condition")) && !condition)
          condition = outer;
      if (!condition) continue;
      told.push_back(leave);
      propose({.code = FindingCode::rank_conditional_collective,
               .severity = Severity::critical,
               .confidence = 0.8,
               .where = {place_of(file, leave), place_of(file, condition)},
               .reason = "one rank leaves the loop here, and the others go on to the next "
                         "all-reduce: they wait for it until the timeout",
               .description = "tell all ranks (broadcast the decision as a tensor) and let them "
                              "leave together",
               .effect = "nobody waits for a rank that never comes",
               .changes = "the others stop as well"},
              findings);
    }
}

}  // namespace

void rank_conditions(const RuleInput& input, const ScriptFacts& script,
                     std::vector<CodeFinding>& findings) {
  if (!script.code.trains_with_ddp && !script.code.trains_with_accelerate &&
      script.code.joins.empty())
    return;
  breaks(script, findings);
  const auto splits = split_paths(input.project, script.code, *script.origins);
  for (const SplitPath& split : splits) {
    std::vector<Edit> edits = barrier_for_all(input, split);
    const bool moved = !edits.empty();
    std::vector<Place> where = {
        place_of(split.file, split.lone != nullptr && split.condition.contains(split.lone->node)
                                 ? split.lone->node
                                 : split.condition)};
    if (split.lone != nullptr && split.condition.contains(split.lone->node))
      where.push_back(place_of(split.file, split.condition));
    propose({.code = FindingCode::rank_conditional_collective,
             .severity = Severity::critical,
             .confidence = 0.85,
             .where = std::move(where),
             .reason = fmt::format("rank 0 comes through {} here, the others through {}: who is "
                                   "there waits for who is not, until the timeout",
                                   split.of_main, split.of_others),
             .description =
                 moved ? "let every rank come to the barrier"
                       : "let every rank come to the same collectives in the same order: move them "
                         "out of the condition, or give the others their counterpart",
             .effect = "nobody waits for a rank that never comes",
             .changes = moved ? "the others wait for rank 0 there" : "",
             .files = {{split.file, std::move(edits)}}},
            findings);
  }
  if (splits.empty()) return;
  constexpr double kDefaultMinutes = 30;
  for (const CallAt& join : script.code.joins)
    if (const PythonArgument* const timeout = join.call->argument("timeout");
        timeout != nullptr && minutes_of(timeout->value) > kDefaultMinutes)
      propose(
          {.code = FindingCode::nccl_timeout,
           .confidence = 0.8,
           .where = {place_of(join.file, timeout->whole)},
           .reason = fmt::format("the timeout is {:.0f} minutes, and {} has a collective that a "
                                 "rank never comes to: a longer wait does not bring it",
                                 minutes_of(timeout->value),
                                 words_of(input, splits.front().file, splits.front().condition)),
           .description = "mend the missing rank first, then take the timeout back to its default",
           .effect = "a run that hangs says so within minutes",
           .changes = "how long a hang lasts"},
          findings);
}

}  // namespace lockstep
