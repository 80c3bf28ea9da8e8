// Finds checkpoints that every rank writes to the same file, and runs that every rank opens at an
// experiment tracker.
//
// Why it matters: N processes write one file at once: what is left may be half of each, and N
// writers take N times the disk's time. N wandb runs for one training are noise, and N uploads.
//
// A name with the rank in it is a file of its own; DeepSpeed, FSDP and torch.distributed.checkpoint
// want every rank to save. Whether others come there is followed over callers and early returns;
// where it is not known, nothing is said.
#include <fmt/format.h>

#include <algorithm>

#include "fix/rules/loops/loop_rules.hpp"

namespace lockstep {
namespace {

bool saves_in_parts(const ScriptFacts& script) {
  return std::ranges::any_of(script.code.all, [](const CallAt& item) {
    const std::string_view name = item.call->last_name();
    return name == "FullyShardedDataParallel" || name == "FSDP" || name == "fully_shard" ||
           name == "save_checkpoint_parallel" ||
           item.call->full_name.starts_with("torch.distributed.checkpoint") ||
           item.call->full_name.starts_with("deepspeed");
  });
}

// Or not written to a file at all: io.BytesIO().
bool is_named_by_rank(const ScriptFacts& script, const CallAt& save) {
  const PythonArgument* const path = save.call->given("f", 1);
  if (path == nullptr || names_a_rank(path->value)) return true;
  const Origins origins = script.origins->of(save.file, path->value);
  return std::ranges::any_of(origins.all, [](const Origin& origin) {
    return names_a_rank(origin.expression) ||
           origin.expression.text().find("BytesIO") != std::string_view::npos;
  });
}

// `if not self.save_to_disk: return` at the head of the function: somebody has decided who writes.
bool is_decided_above(Node save) {
  const Node function = function_around(save);
  if (!function) return false;
  for (const Node& statement : function.field("body").children()) {
    if (statement.from() >= save.from()) break;
    if (!statement.is("if_statement") ||
        statement.field("consequence").descendants("return_statement").empty())
      continue;
    const std::string_view condition = statement.field("condition").text();
    for (const std::string_view word : {"save", "disk", "main", "master", "write"})
      if (condition.find(word) != std::string_view::npos) return true;
  }
  return false;
}

// A rank of -1 stands for a run without ranks, in scripts that grew from YOLOv5.
bool may_be_minus_one(std::string_view text, const std::string& rank) {
  for (const char* asked :
       {" in [-1, 0]", " in (-1, 0)", " in {-1, 0}", " in [-1,0]", " == -1", " != -1"})
    if (text.find(rank + asked) != std::string_view::npos) return true;
  return false;
}

// What is alike on all ranks: a model's or an optimizer's state, and what stands beside it in the
// checkpoint. A batch, a prediction, a loss is a rank's own.
bool is_alike_on_all_ranks(const ScriptFacts& script, const CallAt& save) {
  const PythonArgument* const object = save.call->given("obj", 0);
  if (object == nullptr) return false;
  const auto speaks_of_state = [](std::string_view text) {
    return text.find("state_dict") != std::string_view::npos ||
           text.find("model") != std::string_view::npos ||
           text.find("net") != std::string_view::npos ||
           text.find("checkpoint") != std::string_view::npos ||
           text.find("ckpt") != std::string_view::npos ||
           text.find("state") != std::string_view::npos ||
           text.find("weights") != std::string_view::npos;
  };
  if (speaks_of_state(object->value.text())) return true;
  const auto origins = script.origins->of(save.file, object->value).all;
  return std::ranges::any_of(
      origins, [&](const Origin& origin) { return speaks_of_state(origin.expression.text()); });
}

// On the way of an exception, or where this rank's own numbers have it (a loss that is NaN): the
// others may not come there.
bool is_on_a_ranks_own_way(Node save) {
  for (Node outer = save.parent(); outer; outer = outer.parent()) {
    if (outer.is("except_clause")) return true;
    if (!outer.is("if_statement")) continue;
    const std::string_view condition = outer.field("condition").text();
    for (const std::string_view word : {"isnan", "isinf", "isfinite", "is_nan", "nan_"})
      if (condition.find(word) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

void every_rank_saves(const RuleInput& input, const ScriptFacts& script,
                      std::vector<CodeFinding>& findings) {
  if (!is_hand_made_ddp(script) || saves_in_parts(script)) return;
  for (const CallAt& item : script.code.all) {
    const bool save = item.call->full_name == "torch.save";
    const bool tracker =
        item.call->full_name == "wandb.init" || item.call->last_name() == "SummaryWriter";
    if ((!save && !tracker) || is_another_script(input, script, item.file)) continue;
    if (item.call->node.enclosing("class_definition") && !function_around(item.call->node))
      continue;
    if (runs_on_every_rank(*script.origins, item.file, item.call->node) != true) continue;
    if (save && (is_named_by_rank(script, item) || is_decided_above(item.call->node) ||
                 is_on_a_ranks_own_way(item.call->node) || !is_alike_on_all_ranks(script, item)))
      continue;
    // Before the ranks are started, in the function that starts them.
    const bool is_the_starter =
        script.code.starts_itself == "mp.spawn" &&
        std::ranges::any_of(script.code.all, [&](const CallAt& other) {
          return other.file == item.file && other.call->last_name() == "spawn" &&
                 function_around(other.call->node) == function_around(item.call->node);
        });
    if (tracker && is_the_starter) continue;
    // a stand-in of their own
    if (tracker && item.call->callee.starts_with("wandb.") &&
        !module_of(input, item.file).assigned("wandb").empty())
      continue;
    // group= and name= by rank: on purpose
    if (tracker && (names_a_rank(item.call->node) || item.call->argument("mode") != nullptr))
      continue;
    const PythonModule& module = module_of(input, item.file);
    const Node statement = statement_of(item.call->node);
    const bool alone =
        statement.is("expression_statement") && statement.child(0) == item.call->node;
    const std::string rank = rank_expression(module, item.call->node);
    // A run of one process may have no group to ask.
    const bool asks = rank.ends_with(".get_rank()");
    const bool has_group = item.file == script.code.script && joins_always(script);
    const std::string one_process =
        asks && !has_group
            ? fmt::format("not {}is_initialized() or ",
                          rank.substr(0, rank.size() - std::string_view("get_rank()").size()))
            : "";
    std::vector<Edit> edits;
    // Who reads it back right after would have to wait for rank 0.
    const PythonArgument* const path = save ? item.call->given("f", 1) : nullptr;
    const bool read_back =
        path != nullptr && std::ranges::any_of(script.code.all, [&](const CallAt& other) {
          return other.file == item.file && other.call->full_name == "torch.load" &&
                 other.call->node.from() > item.call->node.from() &&
                 other.call->list.text().find(path->value.text()) != std::string_view::npos;
        });
    if (save && alone && !read_back) {
      // What goes on with the file belongs to whoever wrote it.
      Node last = statement;
      for (Node next = next_statement(last);
           next && path != nullptr &&
           next.text().find(path->value.text()) != std::string_view::npos;
           next = next_statement(next))
        last = next;
      edits = put_under(
          text_of(input, item.file), statement, last,
          fmt::format("if {}{} {}:", one_process, rank,
                      may_be_minus_one(text_of(input, item.file), rank) ? "in (-1, 0)" : "== 0"));
    }
    if (!edits.empty() && rank.starts_with("torch.distributed."))
      edits = with_import(std::move(edits), module, "torch.distributed");
    propose({.code = FindingCode::every_rank_saves,
             .confidence = 0.85,
             .where = {place_of(item.file, item.call->node)},
             .reason =
                 save ? std::string(
                            "every rank writes this checkpoint, to the same file, at the same time")
                      : fmt::format("every rank calls {}: one training, N logs", item.call->callee),
             .description =
                 save ? std::string("let rank 0 write it")
                      : fmt::format("let rank 0 alone call {} and log to it", item.call->callee),
             .effect =
                 save ? "one write instead of N, and a file that is whole" : "one run instead of N",
             .changes = save ? "nothing: DDP's ranks hold the same model" : "which ranks report",
             .files = {{item.file, std::move(edits)}}},
            findings);
  }
}

}  // namespace lockstep
