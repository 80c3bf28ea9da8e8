#include "fix/facts/rank_paths.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "fix/python/statements.hpp"

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 18> kMainWords = {
    "is_root",        "world_master", "is_lead",   "is_main_process", "main_process", "is_master",
    "master_process", "is_main",      "is_rank_0", "is_rank_zero",    "rank_zero",    "is_chief",
    "is_primary",     "should_save",  "isRank0",   "is_rank0",        "isMaster",     "isMain"};

bool has_main_word(std::string_view text) {
  return std::ranges::any_of(
      kMainWords, [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

RankTest opposite(RankTest test) {
  return test == RankTest::main_rank     ? RankTest::other_ranks
         : test == RankTest::other_ranks ? RankTest::main_rank
                                         : test;
}

Node peeled(Node node) {
  while (node.is("parenthesized_expression")) node = node.child(0);
  return node;
}

// rank == 0, rank != 0, rank > 0, local_rank in [-1, 0], local_rank not in (-1, 0)
RankTest comparison_test(Node node) {
  if (node.children().size() != 2 || !names_a_rank(node.child(0)))
    return RankTest::nobody_in_particular;
  std::string_view sign;
  for (const Node& part : node.all_children())
    if (!part.is_named() || part.is("not in") || part.is("is not")) sign = part.text();
  const Node right = peeled(node.child(1));
  const auto number = number_value(right);
  if (sign == "==" && number == 0) return RankTest::main_rank;
  if ((sign == "!=" || sign == ">") && number == 0) return RankTest::other_ranks;
  if ((sign == "<" && number == 1) || (sign == "<=" && number == 0)) return RankTest::main_rank;
  if (right.is("list") || right.is("tuple") || right.is("set")) {
    const auto items = right.children();
    const bool only_zero = std::ranges::all_of(
        items, [](const Node& item) { return number_value(item).value_or(9) <= 0; });
    if (only_zero && sign == "in") return RankTest::main_rank;
    if (only_zero && sign == "not in") return RankTest::other_ranks;
  }
  return RankTest::nobody_in_particular;
}

// `not dist.is_initialized()`: true on a run of one process, which is rank 0 by itself.
bool asks_for_one_process(Node node) {
  const std::string_view text = node.text();
  return text.find("is_initialized") != std::string_view::npos ||
         text.find("distributed") != std::string_view::npos ||
         text.find("world_size") != std::string_view::npos ||
         text.find("ddp") != std::string_view::npos;
}

}  // namespace

bool names_a_rank(Node expression) {
  const std::string_view text = expression.text();
  if (has_main_word(text)) return true;
  for (const char* word :
       {"rank", "RANK", "process_index", "PROCID", "gpu_id", "proc_id", "process_id"})
    if (text.find(word) != std::string_view::npos) return true;
  // `if gpu == 0`, as scripts of mp.spawn write; and not ngpus > 0.
  const auto names = names_in(expression);
  return std::ranges::any_of(names, [](const std::string& name) {
    return name == "gpu" || name.ends_with(".gpu") || name == "nr" || name.ends_with(".nr");
  });
}

RankTest rank_test(Node condition) {
  const Node node = peeled(condition);
  if (node.is("not_operator")) return opposite(rank_test(node.field("argument")));
  if (node.is("comparison_operator")) return comparison_test(node);
  if (node.is("boolean_operator")) {
    const RankTest left = rank_test(node.field("left"));
    const RankTest right = rank_test(node.field("right"));
    if (node.field("operator").text() == "and")
      return left != RankTest::nobody_in_particular ? left : right;
    if (left == right) return left;
    if (left == RankTest::main_rank && asks_for_one_process(node.field("right"))) return left;
    if (right == RankTest::main_rank && asks_for_one_process(node.field("left"))) return right;
    return RankTest::nobody_in_particular;
  }
  if ((node.is("identifier") || node.is("attribute") || node.is("call")) &&
      has_main_word(node.text()))
    return RankTest::main_rank;
  return RankTest::nobody_in_particular;
}

bool is_bare_rank_test(Node condition) {
  const Node node = peeled(condition);
  if (node.is("not_operator")) return is_bare_rank_test(node.field("argument"));
  if (node.is("boolean_operator") && node.field("operator").text() == "and") {
    const auto counts = [](Node part) {
      return rank_test(part) != RankTest::nobody_in_particular || asks_for_one_process(part);
    };
    return counts(node.field("left")) && counts(node.field("right"));
  }
  return rank_test(node) != RankTest::nobody_in_particular;
}

bool is_collective(const PythonCall& call) {
  static constexpr std::array<std::string_view, 17> kNames = {"all_reduce",
                                                              "all_gather",
                                                              "all_gather_into_tensor",
                                                              "all_gather_object",
                                                              "broadcast",
                                                              "broadcast_object_list",
                                                              "barrier",
                                                              "monitored_barrier",
                                                              "reduce",
                                                              "gather",
                                                              "gather_object",
                                                              "scatter",
                                                              "scatter_object_list",
                                                              "reduce_scatter",
                                                              "reduce_scatter_tensor",
                                                              "all_to_all",
                                                              "all_to_all_single"};
  const std::string_view name = call.last_name();
  if (name == "wait_for_everyone") return true;
  if (call.argument("group") != nullptr) return false;  // some of the ranks only
  return call.full_name.starts_with("torch.distributed.") &&
         std::ranges::find(kNames, name) != kNames.end();
}

namespace {

// Writes down the collectives on the way of one kind of rank through a block. Conditions that are
// the same for all stay in as they are, so that two ways are alike when their words are.
struct Walked {
  std::vector<std::string> words;  // "barrier", and brackets of loops and conditions
  std::vector<const PythonCall*> calls;
  bool leaves = false;  // by return, raise, continue or break
};
// Functions that were walked, by file and node: each once, however often it is called.
using WalkedFunctions = std::map<std::pair<FileId, std::uint32_t>, Walked>;

class RankWalk {
 public:
  RankWalk(const ValueOrigins& origins, bool main, WalkedFunctions& functions)
      : origins_(origins), main_(main), functions_(functions) {}

  Walked block(FileId file, Node block, int depth = 0) {
    Walked all;
    for (const Node& statement : block.children()) {
      append(all, statement_way(file, statement, depth));
      if (all.leaves) break;
    }
    return all;
  }

  // The way through an `if` on the rank.
  Walked branch(FileId file, Node statement, int depth = 0) {
    const RankTest test = rank_test(statement.field("condition"));
    const bool taken = (test == RankTest::main_rank) == main_;
    const bool bare = is_bare_rank_test(statement.field("condition"));
    Walked rest;
    for (const Node& other : statement.fields("alternative"))
      append(rest, other.is("elif_clause")
                       ? optional_part(block(file, other.field("consequence"), depth))
                       : block(file, other.field("body"), depth));
    if (!taken) return rest;
    Walked first = block(file, statement.field("consequence"), depth);
    if (bare) return first;
    return either(std::move(first), std::move(rest));
  }

 private:
  static void append(Walked& all, Walked part) {
    all.words.insert(all.words.end(), part.words.begin(), part.words.end());
    all.calls.insert(all.calls.end(), part.calls.begin(), part.calls.end());
    all.leaves = all.leaves || part.leaves;
  }

  static Walked bracketed(const char* open, Walked part) {
    if (part.words.empty()) return part;
    part.words.insert(part.words.begin(), open);
    part.words.emplace_back(")");
    return part;
  }

  static Walked optional_part(Walked part) {
    part.leaves = false;
    return bracketed("if(", std::move(part));
  }

  static Walked either(Walked first, Walked second) {
    const bool leaves = first.leaves && second.leaves;
    Walked all = bracketed("if(", std::move(first));
    append(all, bracketed("else(", std::move(second)));
    all.leaves = leaves;
    return all;
  }

  Walked statement_way(FileId file, Node statement, int depth) {
    if (statement.is("function_definition") || statement.is("class_definition") ||
        statement.is("decorated_definition") || statement.is("comment"))
      return {};
    if (statement.is("if_statement")) {
      Walked all = calls_in(file, statement.field("condition"), depth);
      if (rank_test(statement.field("condition")) != RankTest::nobody_in_particular) {
        append(all, branch(file, statement, depth));
        return all;
      }
      Walked first = block(file, statement.field("consequence"), depth);
      Walked rest;
      bool has_else = false;
      for (const Node& other : statement.fields("alternative")) {
        has_else = has_else || other.is("else_clause");
        append(rest, other.is("elif_clause")
                         ? optional_part(block(file, other.field("consequence"), depth))
                         : block(file, other.field("body"), depth));
      }
      if (!has_else) rest.leaves = false;
      append(all, either(std::move(first), std::move(rest)));
      return all;
    }
    if (is_loop(statement)) {
      Walked all = calls_in(
          file,
          statement.is("for_statement") ? statement.field("right") : statement.field("condition"),
          depth);
      Walked inside = block(file, statement.field("body"), depth);
      inside.leaves = false;
      append(all, bracketed("each(", std::move(inside)));
      return all;
    }
    if (statement.is("with_statement")) {
      Walked all = calls_in(file, statement.child(0), depth);
      append(all, block(file, statement.field("body"), depth));
      return all;
    }
    if (statement.is("try_statement")) {
      Walked all = block(file, statement.field("body"), depth);
      for (const Node& part : statement.children())
        if (part.is("finally_clause")) append(all, block(file, part.child(0), depth));
      return all;
    }
    Walked all = calls_in(file, statement, depth);
    all.leaves = statement.is("return_statement") || statement.is("raise_statement") ||
                 statement.is("continue_statement") || statement.is("break_statement");
    return all;
  }

  Walked calls_in(FileId file, Node expression, int depth) {
    Walked all;
    if (!expression) return all;
    for (const Node& node : expression.descendants("call")) {
      const PythonCall* const call = origins_.call_at(file, node);
      if (call == nullptr) continue;
      if (is_collective(*call)) {
        all.words.emplace_back(call->last_name());
        all.calls.push_back(call);
      } else if (call->full_name == "sys.exit" || call->callee == "exit" ||
                 call->full_name == "os._exit") {
        all.leaves = true;
      } else if (const ValueOrigins::Function* const called = origins_.function(file, call->callee);
                 called != nullptr) {
        Walked within = function_way(*called, depth);
        // where it is to be seen from here
        for (const PythonCall*& inner : within.calls) inner = call;
        append(all, std::move(within));
      }
    }
    return all;
  }

  // A function that parts ways by itself is reported itself: from outside both kinds come through
  // as rank 0 does.
  Walked function_way(const ValueOrigins::Function& function, int depth) {
    constexpr int kDeepest = 30;  // calls in calls
    // words: what goes on for longer is not compared any more
    constexpr std::size_t kLongest = 500;
    // empty while it is walked: one that calls itself ends
    const auto [known, fresh] = functions_.try_emplace({function.file, function.node.index()});
    if (!fresh || depth > kDeepest) return known->second;
    Walked way = RankWalk(origins_, true, functions_)
                     .block(function.file, function.node.field("body"), depth + 1);
    way.leaves = false;
    // One that asks for the rank itself around a collective may be called with another rank than
    // its own: nothing is said of it from outside.
    const auto conditions = function.node.descendants("if_statement");
    const bool asks = std::ranges::any_of(conditions, [&](const Node& condition) {
      return rank_test(condition.field("condition")) != RankTest::nobody_in_particular &&
             (condition.text().find("barrier") != std::string_view::npos ||
              condition.text().find("all_") != std::string_view::npos ||
              condition.text().find("broadcast") != std::string_view::npos);
    });
    if (asks || way.words.size() > kLongest) way = {};
    return functions_[{function.file, function.node.index()}] = std::move(way);
  }

  const ValueOrigins& origins_;
  bool main_;
  WalkedFunctions& functions_;
};

// The same with alternatives that are alike taken for one: `if a: …, barrier() elif b: …,
// barrier()` is a barrier, for what the two conditions leave out is not seen here.
std::vector<std::string> without_like_ways(const std::vector<std::string>& words) {
  struct Open {
    std::string bracket;
    std::vector<std::string> inner;
    std::optional<std::vector<std::string>> first_way;  // of an if( that has just closed in it
  };
  std::vector<Open> open(1);
  for (const std::string& word : words) {
    if (word.ends_with('(')) {
      open.push_back({word, {}, {}});
      continue;
    }
    if (word != ")" || open.size() == 1) {
      open.back().inner.push_back(word);
      open.back().first_way.reset();
      continue;
    }
    const Open closed = std::move(open.back());
    open.pop_back();
    Open& outer = open.back();
    // The first way stands for both.
    const bool is_alike =
        closed.bracket == "else(" && outer.first_way && *outer.first_way == closed.inner;
    outer.first_way.reset();
    if (is_alike) continue;
    if (closed.bracket == "if(") outer.first_way = closed.inner;
    outer.inner.insert(outer.inner.end(), closed.inner.begin(), closed.inner.end());
  }
  return open.front().inner;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words)
    if (word != ")" && !word.ends_with("(")) text += (text.empty() ? "" : ", ") + word;
  return text.empty() ? "none" : text;
}

}  // namespace

std::vector<SplitPath> split_paths(const Project& project, const TrainingCode& code,
                                   const ValueOrigins& origins) {
  struct Body {
    FileId file;
    Node owner;
    Node block;
  };
  std::set<FileId> files = {code.script};
  for (const CallAt& item : code.all) files.insert(item.file);
  std::vector<Body> bodies;
  for (const FileId file : files) {
    const PythonModule& module = *project.file(file).python();
    bodies.push_back({file, module.tree().root(), module.tree().root()});
    for (const PythonFunction& function : module.functions())
      bodies.push_back({file, function.node, function.node.field("body")});
  }
  std::vector<SplitPath> found;
  WalkedFunctions functions;
  for (const Body& body : bodies) {
    RankWalk main(origins, true, functions);
    RankWalk others(origins, false, functions);
    const auto of_main = main.block(body.file, body.block);
    const auto of_others = others.block(body.file, body.block);
    if (of_main.words == of_others.words ||
        without_like_ways(of_main.words) == without_like_ways(of_others.words))
      continue;
    SplitPath split{body.file, {}, nullptr, joined(of_main.words), joined(of_others.words)};
    for (const Node& statement : body.block.descendants("if_statement")) {
      if ((function_around(statement) ? function_around(statement) : body.owner) != body.owner ||
          rank_test(statement.field("condition")) == RankTest::nobody_in_particular)
        continue;
      const auto here = main.branch(body.file, statement);
      const auto there = others.branch(body.file, statement);
      if (here.words == there.words && here.leaves == there.leaves) continue;
      split.condition = statement;
      if (here.words != there.words)
        split.lone = !here.calls.empty() && here.words.size() >= there.words.size()
                         ? here.calls.front()
                     : there.calls.empty() ? nullptr
                                           : there.calls.front();
      if (split.lone != nullptr) break;
    }
    if (split.condition) found.push_back(std::move(split));
  }
  return found;
}

std::optional<bool> runs_on_every_rank(const ValueOrigins& origins, FileId first_file, Node first) {
  struct Step {
    FileId file;
    Node node;
  };
  std::vector<Step> open = {{first_file, first}};
  std::set<std::pair<FileId, std::uint32_t>> seen;
  bool guarded_somewhere = false;
  bool reached = false;
  while (!open.empty()) {
    const Step step = open.back();
    open.pop_back();
    bool guarded = false;
    for (Node outer = step.node.parent(), inner = step.node;
         outer && !outer.is("function_definition") && !outer.is("module");
         inner = outer, outer = outer.parent())
      if ((outer.is("if_statement") || outer.is("elif_clause")) &&
          (names_a_rank(outer.field("condition")) ||
           (asks_for_one_process(outer.field("condition")) &&
            outer.field("condition").text().find("not ") != std::string_view::npos)))
        guarded = true;
      else if (outer.is("else_clause") && (names_a_rank(outer.parent().field("condition")) ||
                                           asks_for_one_process(outer.parent().field("condition"))))
        guarded = true;  // the other branch is that of several ranks
      else if (outer.is("conditional_expression") && names_a_rank(outer))
        guarded = true;
    for (const Node& before : statements_before(step.node, {}))
      if (before.is("if_statement") && names_a_rank(before.field("condition")) &&
          (!before.descendants("return_statement").empty() ||
           !before.descendants("continue_statement").empty()))
        guarded = true;
    const Node function = function_around(step.node);
    if (function.parent().is("decorated_definition") && names_a_rank(function.parent().child(0)))
      guarded = true;
    if (guarded) {
      guarded_somewhere = true;
      continue;
    }
    if (!function) {
      reached = true;
      continue;
    }
    if (!seen.emplace(step.file, function.index()).second) continue;
    const std::string_view name = function.field("name").text();
    const auto callers = origins.callers(step.file, function);
    if (callers.empty() && name == "main") reached = true;  // started by an entry point
    for (const CallAt& call : callers) open.push_back({call.file, call.call->node});
  }
  // One way with a condition and one without: the function itself may know which is which.
  if (reached) return guarded_somewhere ? std::nullopt : std::optional(true);
  return guarded_somewhere ? std::optional(false) : std::nullopt;
}

std::string rank_expression(const PythonModule& module, Node at) {
  for (const char* name : {"rank", "global_rank", "ddp_rank", "world_rank", "args.rank",
                           "self.rank", "self.global_rank"}) {
    const Node scope = function_around(at);
    for (const PythonAssignment& item : module.assignments())
      if (item.target == name && (item.function == scope || !item.function) &&
          !condition_around(item.statement))
        return name;
    for (const PythonFunction& function : module.functions())
      if (function.node == scope &&
          std::ranges::find(function.parameters, name) != function.parameters.end())
        return name;
  }
  for (const PythonImport& import : module.imports())
    if (import.at_top &&
        ((import.name.empty() && import.module == "torch.distributed" && !import.alias.empty()) ||
         (import.module == "torch" && import.name == "distributed")))
      return (import.alias.empty() ? "distributed" : import.alias) + ".get_rank()";
  return "torch.distributed.get_rank()";
}

}  // namespace lockstep
