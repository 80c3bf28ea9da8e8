#include "fix/facts/training_loop.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "fix/python/statements.hpp"

namespace lockstep {
namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

std::string owner_of(const PythonCall& call) {
  const auto dot = call.callee.rfind('.');
  return dot == std::string::npos ? "" : call.callee.substr(0, dot);
}

// optimizer.step(), and not scheduler.step(), profiler.step(), env.step(action).
bool is_update(const PythonCall& call) {
  if (call.last_name() != "step") return false;
  const std::string owner = lower_case(owner_of(call));  // OPTIMIZER.step()
  for (const char* other : {"sched", "prof", "env", "logger", "timer", "warmup", "pbar"})
    if (owner.find(other) != std::string::npos) return false;
  if (owner.find("scaler") != std::string::npos) return !call.arguments.empty();
  return owner.find("opt") != std::string::npos && call.arguments.empty();
}

// engine.backward(loss), engine.step(): DeepSpeed's, whatever the engine is called.
bool steps_the_engine(const PythonCall& call, const PythonCall& backward) {
  return call.last_name() == "step" && call.arguments.empty() &&
         backward.positional(0) != nullptr && owner_of(call) == owner_of(backward) &&
         !owner_of(call).empty() && owner_of(call) != "accelerator";
}

bool is_bar(const PythonCall& call) {
  return is_one_of(call.last_name(), {"tqdm", "trange", "track", "progress_bar", "Progress",
                                      "metric_logger", "log_every", "prange"});
}

// with tqdm(loader) as bar: for batch in bar. What the bar was given; none: it is no such name.
Node given_to_a_bar_around(const ValueOrigins& origins, FileId file, Node name) {
  for (Node with = name.enclosing("with_statement"); with; with = with.enclosing("with_statement"))
    for (const Node& pattern : with.descendants("as_pattern")) {
      const auto parts = pattern.children();
      if (parts.size() < 2 || parts.back().text() != name.text()) continue;
      const PythonCall* const call =
          parts.front().is("call") ? origins.call_at(file, parts.front()) : nullptr;
      if (call != nullptr && is_bar(*call) && call->positional(0) != nullptr)
        return call->positional(0)->value;
    }
  return {};
}

// What a loop goes over without enumerate() and progress bars, and whether it counts.
void read_source(const ValueOrigins& origins, TrainingLoop& loop) {
  Node source = loop.loop.field("right");
  bool counts = false;
  for (int depth = 0; depth < 4; ++depth) {
    const PythonCall* const call = source.is("call") ? origins.call_at(loop.file, source) : nullptr;
    if (call == nullptr || call->positional(0) == nullptr ||
        (call->callee != "enumerate" && !is_bar(*call) && call->callee != "iter"))
      break;
    if (call->callee == "enumerate") {
      counts = true;
      const PythonArgument* const start = call->given("start", 1);
      if (start != nullptr) {
        const auto number = number_value(start->value);
        loop.first_count = number ? static_cast<int>(*number) : -1;
      }
    }
    source = call->positional(0)->value;
  }
  if (source.is("identifier"))
    if (const Node given = given_to_a_bar_around(origins, loop.file, source)) source = given;
  // A bar that was given the loader before: bar = tqdm(loader); for batch in bar.
  if (source.is("identifier"))
    for (const CallAt& bar : origins.calls(loop.file, source, {"tqdm", "track", "enumerate"})) {
      if (bar.file != loop.file || bar.call->positional(0) == nullptr) continue;
      Node inner = bar.call->positional(0)->value;
      if (const PythonCall* const call =
              inner.is("call") ? origins.call_at(loop.file, inner) : nullptr;
          call != nullptr && call->callee == "enumerate" && call->positional(0) != nullptr) {
        inner = call->positional(0)->value;
        counts = true;
      }
      counts = counts || bar.call->callee == "enumerate";
      source = inner;
    }
  loop.source = source;
  Node target = loop.loop.field("left");
  if (counts && target.children().size() >= 2) {
    loop.counter = std::string(target.child(0).text());
    const auto names = names_in(target);
    loop.batch = {names.begin(), names.end()};
    loop.batch.erase(loop.counter);
  } else if (!counts) {
    for (const std::string& name : names_in(target)) loop.batch.insert(name);
    if (target.is("identifier")) loop.batch.insert(std::string(target.text()));
  }
}

// images, labels = batch; mask = batch["mask"]: parts of the batch, as long as nothing was done to
// it.
void take_parts_of_the_batch(TrainingLoop& loop) {
  const auto assignments = loop.body().descendants("assignment");
  const auto is_part = [&](Node value) {
    while (value.is("subscript")) value = value.field("value");
    return value.is("identifier") && loop.batch.contains(std::string(value.text()));
  };
  std::set<std::string> changed;
  for (const Node& item : assignments) {
    const Node value = item.field("right");
    const auto values = value.is("expression_list") || value.is("tuple") ? value.children()
                                                                         : std::vector<Node>{value};
    const bool parts = std::ranges::all_of(values, [&](const Node& one) {
      return is_part(one) && std::ranges::none_of(names_in(one), [&](const std::string& name) {
               return changed.contains(name);
             });
    });
    const Node target = item.field("left");
    auto names = names_in(target);
    if (target.is("identifier")) names.insert(std::string(target.text()));
    if (parts && function_around(item) == loop.function)
      loop.batch.insert(names.begin(), names.end());
    else
      changed.insert(names.begin(), names.end());
  }
}

// for batch in loader: for _ in range(3): ... backward(), step(). The batch is the outer loop's.
void take_batches_from_around(const ValueOrigins& origins, TrainingLoop& loop) {
  if (!loop.loop.is("for_statement") || !loop.epochs.is("for_statement")) return;
  if (loop.loop.field("right").field("function").text() != "range") return;
  TrainingLoop around;
  around.file = loop.file;
  around.loop = loop.epochs;
  read_source(origins, around);
  if (!around.source) return;
  around.loaders = origins.calls(around.file, around.source, {"DataLoader"});
  if (around.loaders.empty()) return;
  loop.loaders = std::move(around.loaders);
  loop.batch = std::move(around.batch);
}

// The `if` between the loop and the update that has no backward() in it: only some turns end with
// an update.
Node boundary_of(const TrainingLoop& loop) {
  for (Node node = loop.update->node.parent(); node && node != loop.loop; node = node.parent())
    if (node.is("if_statement") && !node.contains(loop.backward->node) &&
        node.field("condition").text().find('%') != std::string_view::npos)
      return node;
  return {};
}

// The `if` whose both ways go through backward(), and one of them through the update.
void find_fork(const TrainingCode& code, TrainingLoop& loop) {
  for (Node node = loop.update->node.parent(), inner = loop.update->node; node && node != loop.loop;
       inner = node, node = node.parent()) {
    if (!node.is("if_statement")) continue;
    if (node.field("condition").text().find('%') == std::string_view::npos ||
        !node.descendants("elif_clause").empty())
      return;
    const auto is_passed = [&](bool on_the_updates_way) {
      return std::ranges::any_of(code.all, [&](const CallAt& item) {
        return item.file == loop.file && item.call->last_name() == "backward" &&
               node.contains(item.call->node) &&
               inner.contains(item.call->node) == on_the_updates_way;
      });
    };
    if (!is_passed(true) || !is_passed(false)) return;
    loop.fork = node;
    loop.updates_in_else = inner.is("else_clause");
    return;
  }
}

}  // namespace

std::vector<TrainingLoop> training_loops(const TrainingCode& code, const ValueOrigins& origins) {
  std::vector<TrainingLoop> loops;
  for (const CallAt& backward : code.all) {
    if (backward.call->last_name() != "backward") continue;
    const Node function = function_around(backward.call->node);
    if (function && is_one_of(function.field("name").text(), {"backward", "closure"})) continue;
    const Node inner = loop_around(backward.call->node);
    if (!inner) continue;
    TrainingLoop loop;
    loop.file = backward.file;
    loop.backward = backward.call;
    loop.function = function;
    // The innermost loop with an update in it; backward() may stand in a loop of passes within it.
    for (Node outer = inner; outer && loop.update == nullptr; outer = loop_around(outer)) {
      for (const CallAt& item : code.all)
        if (item.file == loop.file && outer.contains(item.call->node) &&
            function_around(item.call->node) == function &&
            (is_update(*item.call) || steps_the_engine(*item.call, *backward.call)) &&
            (loop.update == nullptr || item.call->node.from() > backward.call->node.from())) {
          loop.update = item.call;
          if (item.call->node.from() > backward.call->node.from()) break;
        }
      if (loop.update != nullptr) {
        loop.loop = outer;
        if (outer != inner) loop.passes = inner;
      }
    }
    if (loop.update == nullptr) continue;
    const bool known = std::ranges::any_of(loops, [&](const TrainingLoop& other) {
      return other.file == loop.file && other.loop == loop.loop;
    });
    if (known) continue;  // a second backward() of the same turn
    std::set<std::string> stepped;
    for (const CallAt& item : code.all)
      if (item.file == loop.file && loop.loop.contains(item.call->node) && is_update(*item.call))
        stepped.insert(item.call->positional(0) != nullptr
                           ? std::string(item.call->positional(0)->value.text())
                           : owner_of(*item.call));
    loop.optimizers = stepped.size();
    loop.epochs = loop_around(loop.loop);
    loop.scales =
        backward.call->node.field("function").text().find(".scale(") != std::string_view::npos;
    loop.by_library = backward.call->positional(0) != nullptr;
    loop.boundary = boundary_of(loop);
    if (!loop.boundary && !loop.passes) find_fork(code, loop);
    if (loop.loop.is("for_statement")) read_source(origins, loop);
    if (loop.source) loop.loaders = origins.calls(loop.file, loop.source, {"DataLoader"});
    if (loop.loaders.empty()) take_batches_from_around(origins, loop);
    take_parts_of_the_batch(loop);
    loops.push_back(std::move(loop));
  }
  return loops;
}

std::vector<TrainingLoop> spread_loops(const TrainingCode& code, const ValueOrigins& origins) {
  std::vector<TrainingLoop> loops;
  for (const CallAt& backward : code.all) {
    if (backward.call->last_name() != "backward") continue;
    const Node turn = function_around(backward.call->node);
    if (!turn || is_one_of(turn.field("name").text(), {"backward", "closure"})) continue;
    // Its passes may be a loop within it; its update is not.
    const auto update = std::ranges::find_if(code.all, [&](const CallAt& item) {
      return item.file == backward.file && turn.contains(item.call->node) &&
             is_update(*item.call) && !loop_around(item.call->node);
    });
    if (update == code.all.end()) continue;
    for (const CallAt& caller : origins.callers(backward.file, turn)) {
      const Node around = loop_around(caller.call->node);
      const bool known = std::ranges::any_of(loops, [&](const TrainingLoop& other) {
        return other.file == caller.file && other.loop == around;
      });
      if (!around || turn.contains(around) || known) continue;
      TrainingLoop loop;
      loop.file = caller.file;
      loop.loop = around;
      loop.function = function_around(around);
      loop.epochs = loop_around(around);
      loop.backward = backward.call;
      loop.update = update->call;
      loop.optimizers = 1;
      loop.by_library = backward.call->positional(0) != nullptr;
      loop.turn = turn;
      loop.turn_file = backward.file;
      if (around.is("for_statement")) read_source(origins, loop);
      if (loop.source) loop.loaders = origins.calls(loop.file, loop.source, {"DataLoader"});
      loops.push_back(std::move(loop));
    }
  }
  return loops;
}

bool in_every_turn(Node loop, Node node) {
  for (Node outer = node.parent(), inner = node; outer && inner != loop;
       inner = outer, outer = outer.parent()) {
    if (outer.is("if_statement") && inner != outer.field("condition")) return false;
    if (outer.is("else_clause") || outer.is("elif_clause") || outer.is("except_clause") ||
        outer.is("conditional_expression") || outer.is("boolean_operator") ||
        outer.is("function_definition") || outer.is("lambda") || outer.is("case_clause"))
      return false;
    if (outer.is("if_clause")) return false;
  }
  // What comes after a `continue` under a condition is not met in every turn either; one of a loop
  // within the condition is that loop's.
  const auto leaves_the_turn = [&](const Node& statement, std::string_view kind) {
    return std::ranges::any_of(statement.descendants(kind), [&](const Node& jump) {
      return loop_around(jump) == loop_around(statement);
    });
  };
  const auto before = statements_before(node, loop);
  return std::ranges::none_of(before, [&](const Node& statement) {
    return statement.is("if_statement") &&
           statement.field("condition").text().find('%') != std::string_view::npos &&
           (leaves_the_turn(statement, "continue_statement") ||
            leaves_the_turn(statement, "break_statement"));
  });
}

namespace {

// What a run decides once: a name or an attribute that the loop does not set, with `not`, `and`,
// `is not None` around it.
bool is_a_flag(const TrainingLoop& loop, Node condition) {
  while (condition.is("parenthesized_expression") || condition.is("not_operator"))
    condition = condition.is("not_operator") ? condition.field("argument") : condition.child(0);
  if (condition.is("boolean_operator"))
    return is_a_flag(loop, condition.field("left")) && is_a_flag(loop, condition.field("right"));
  if (condition.is("comparison_operator")) {
    const auto parts = condition.children();
    if (parts.size() != 2 || !is_none(parts[1])) return false;
    condition = parts[0];
  }
  if (!condition.is("identifier") && !condition.is("attribute")) return false;
  const std::string name = lower_case(condition.text());
  for (const char* word : {"step", "iter", "batch", "epoch", "first", "last", "best", "should",
                           "debug", "verbose", "now", "update", "done", "nan", "sync"})
    if (name.find(word) != std::string::npos) return false;
  const auto assignments = loop.loop.descendants("assignment");
  return std::ranges::none_of(assignments, [&](const Node& assignment) {
    return assignment.field("left").text() == condition.text();
  });
}

bool is_a_rank_test_alone(Node condition) {
  const std::string_view text = condition.text();
  return text.find('%') == std::string_view::npos && text.find(" and ") == std::string_view::npos &&
         speaks_of_ranks(condition);
}

}  // namespace

bool in_nearly_every_turn(const TrainingLoop& loop, Node node) {
  for (Node outer = node.parent(), inner = node; outer && inner != loop.loop;
       inner = outer, outer = outer.parent()) {
    if (!outer.is("if_statement") || inner != outer.field("consequence")) continue;
    const Node condition = outer.field("condition");
    if (!is_a_flag(loop, condition) && !is_a_rank_test_alone(condition)) return false;
    return in_every_turn(outer.field("consequence"), node) && in_nearly_every_turn(loop, outer);
  }
  return in_every_turn(loop.loop, node);
}

Node loss_of(const TrainingLoop& loop) {
  Node object = loop.backward->node.field("function").field("object");
  // accelerator.backward(loss), engine.backward(loss); and not loss.backward(gradient)
  if (loop.by_library && lower_case(object.text()).find("loss") == std::string::npos)
    object = loop.backward->positional(0)->value;
  if (object.is("call")) {  // scaler.scale(loss)
    for (const Node& item : object.field("arguments").children())
      if (!item.is("comment")) {
        object = item;
        break;
      }
  }
  while (object.is("parenthesized_expression")) object = object.child(0);
  return object;
}

std::optional<EveryFew> every_few(Node condition) {
  for (const Node& modulo : condition.descendants("binary_operator")) {
    if (modulo.field("operator").text() != "%") continue;
    EveryFew few;
    few.modulo = modulo;
    few.period = modulo.field("right");
    Node left = modulo.field("left");
    while (left.is("parenthesized_expression")) left = left.child(0);
    if (left.is("binary_operator") && left.field("operator").text() == "+" &&
        left.field("right").text() == "1") {
      few.plus_one = true;
      left = left.field("left");
    }
    if (!left.is("identifier")) return std::nullopt;
    few.counter = std::string(left.text());
    Node around = modulo.parent();
    while (around.is("parenthesized_expression")) around = around.parent();
    const bool with_zero = around.is("comparison_operator") && around.children().size() == 2 &&
                           around.child(1).text() == "0";
    few.equals_zero = with_zero && around.text().find("==") != std::string_view::npos;
    few.differs_from_zero =  // `if i % 4:`
        (with_zero && around.text().find("!=") != std::string_view::npos) ||
        around.is("if_statement");
    if (around.is("not_operator")) few.equals_zero = true;
    return few;
  }
  return std::nullopt;
}

std::vector<EpochLoop> epoch_loops(const ValueOrigins& origins, const TrainingLoop& loop) {
  std::vector<EpochLoop> found;
  const auto add = [&](FileId file, Node around) {
    const Node target = around.is("for_statement") ? around.field("left") : Node();
    // range(n), trange(n), tqdm(range(n)), count(); enumerate() counts by its first name. A list of
    // stages does not count.
    const Node over = around.field("right");
    const std::string_view callee = over.field("function").text();
    const bool enumerates = callee == "enumerate";
    const bool counts =
        enumerates || callee == "range" || callee.ends_with("trange") ||
        callee.ends_with("count") ||
        (callee.ends_with("tqdm") && over.text().find("range(") != std::string_view::npos);
    const std::string counter =
        !counts                                   ? ""
        : !enumerates && target.is("identifier")  ? std::string(target.text())
        : enumerates && target.is("pattern_list") ? std::string(target.child(0).text())
                                                  : "";
    const bool known = std::ranges::any_of(
        found, [&](const EpochLoop& other) { return other.file == file && other.loop == around; });
    if (!known) found.push_back({file, around, counter});
  };
  if (loop.epochs) {
    add(loop.file, loop.epochs);
    return found;
  }
  if (!loop.function) return found;
  for (const CallAt& call : origins.callers(loop.file, loop.function))
    if (const Node around = loop_around(call.call->node);
        around && !loop.function.contains(call.call->node))
      add(call.file, around);
  return found;
}

}  // namespace lockstep
