// Finds checkpoints that fit DDP only, and loads that all ranks do onto GPU 0.
//
// Why it matters: the state_dict of a DDP model has `module.` before every name; a script without
// DDP cannot load it. And torch.load without map_location puts tensors back onto the GPU that they
// were saved from: rank 0's, for every rank, which takes N copies of its memory.
//
// Where the project loads checkpoints itself, changing the names would break its own loads: then it
// is shown only. Loads that name the place in any way, and loads of what is no checkpoint of
// tensors (weights of a tokenizer), are passed over.
#include <fmt/format.h>

#include <algorithm>

#include "fix/rules/loops/loop_rules.hpp"

namespace lockstep {
namespace {

// Any file of the project: an evaluation script expects the names as they are.
bool somebody_loads(const RuleInput& input) {
  for (FileId file = 0; file < input.project.size(); ++file)
    if (input.project.file(file).text().find("load_state_dict(") != std::string::npos) return true;
  return false;
}

Edit without_the_wrap(Node object, bool sometimes) {
  if (!sometimes) return {object.to(), object.to(), ".module"};
  return {object.from(), object.to(),
          fmt::format("({0}.module if hasattr({0}, \"module\") else {0})", object.text())};
}

// torch.compile(DDP(model)): its names begin with _orig_mod.
bool is_compiled(const ScriptFacts& script, FileId file, Node object) {
  return std::ranges::any_of(script.origins->of(file, object).all, [](const Origin& origin) {
    return origin.expression.text().find("compile(") != std::string_view::npos;
  });
}

void names_in_checkpoint(const RuleInput& input, const ScriptFacts& script,
                         std::vector<CodeFinding>& findings) {
  for (const CallAt& save : script.code.all) {
    if (save.call->full_name != "torch.save" || is_another_script(input, script, save.file))
      continue;
    for (const CallAt& item : script.code.all) {
      if (item.file != save.file || item.call->last_name() != "state_dict" ||
          !save.call->node.contains(item.call->node))
        continue;
      const Node object = item.call->node.field("function").field("object");
      if (!object.is("identifier") && !object.is("attribute")) continue;
      if (item.call->node.enclosing("conditional_expression") ||
          is_compiled(script, item.file, object) || object.text().ends_with(".module") ||
          wraps_of(script, item.file, object).empty())
        continue;
      // the branch of one process, perhaps
      if (item.call->node.enclosing("else_clause") ||
          runs_on_every_rank(*script.origins, item.file, item.call->node) == std::nullopt)
        continue;
      // A name that is DDP's in one way and bare in another (`if distributed: model = DDP(model)`)
      // has no .module in the other.
      const bool sometimes = std::ranges::any_of(script.code.wraps, [](const CallAt& wrap) {
        return static_cast<bool>(condition_around(wrap.call->node));
      });
      const bool loads = somebody_loads(input);
      propose(
          {.code = FindingCode::checkpoint_not_portable,
           .severity = Severity::info,
           .safety = loads || sometimes ? FixSafety::manual : FixSafety::unsafe,
           .confidence = 0.85,
           .where = {place_of(item.file, item.call->node)},
           .reason = fmt::format("{} is wrapped in DDP: every name in the checkpoint starts with "
                                 "`module.`, and a script without DDP cannot load it",
                                 object.text()),
           .description = fmt::format(
               "save {}.module.state_dict(){}{}", object.text(),
               sometimes ? " where it is wrapped (not in a run of one process)" : "",
               loads ? ", and load into the bare model: old checkpoints need their names changed"
                     : ""),
           .effect = "the checkpoint loads with and without DDP",
           .changes = "names in the checkpoint",
           .files = {{item.file, {without_the_wrap(object, sometimes)}}}},
          findings);
    }
  }
}

// A scheduler's state is a few numbers.
bool is_of_tensors(const PythonCall& call) {
  return call.last_name() == "load_state_dict" && call.callee.find("sched") == std::string::npos;
}

// Whether a name is read, and not a part of a longer one.
bool reads(Node list, std::string_view name) {
  const auto all = list.descendants("identifier");
  return std::ranges::any_of(all,
                             [&](const Node& identifier) { return identifier.text() == name; }) ||
         (name.find('.') != std::string_view::npos &&
          list.text().find(name) != std::string_view::npos);
}

void place_of_load(const RuleInput& input, const ScriptFacts& script,
                   std::vector<CodeFinding>& findings) {
  for (const CallAt& load : script.code.all) {
    if (load.call->full_name != "torch.load" || load.call->has_splat ||
        load.call->argument("map_location") != nullptr || load.call->positional(1) != nullptr)
      continue;
    if (is_another_script(input, script, load.file) ||
        runs_on_every_rank(*script.origins, load.file, load.call->node) == false)
      continue;
    // Only what is loaded into a model or an optimizer was on a GPU.
    const Node statement = statement_of(load.call->node);
    const std::string_view words = statement.text();
    bool into_model = words.find("load_state_dict") != std::string_view::npos &&
                      words.find("scheduler") == std::string_view::npos;
    for (const PythonAssignment& item : module_of(input, load.file).assignments())
      if (item.value == load.call->node)
        into_model = into_model || std::ranges::any_of(script.code.all, [&](const CallAt& other) {
                       return other.file == load.file && is_of_tensors(*other.call) &&
                              reads(other.call->list, item.target);
                     });
    if (!into_model) continue;
    propose(
        {.code = FindingCode::checkpoint_not_portable,
         .confidence = 0.85,
         .where = {place_of(load.file, load.call->node)},
         .reason = "torch.load without map_location: every rank puts the checkpoint onto the GPU "
                   "that saved it, as a rule rank 0's",
         .description = "load to the CPU; load_state_dict copies it to where the model is",
         .effect = "GPU 0 does not hold N copies of the checkpoint",
         .changes = "nothing in the numbers",
         .files = {{load.file, ArgumentSet::of_call(*load.call)
                                   .set(text_of(input, load.file), "map_location", "\"cpu\"")}}},
        findings);
  }
}

}  // namespace

void portable_checkpoints(const RuleInput& input, const ScriptFacts& script,
                          std::vector<CodeFinding>& findings) {
  if (!is_hand_made_ddp(script)) return;
  names_in_checkpoint(input, script, findings);
  place_of_load(input, script, findings);
}

}  // namespace lockstep
