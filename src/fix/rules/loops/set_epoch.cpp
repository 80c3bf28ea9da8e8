// Finds a DistributedSampler that shuffles every epoch alike, for want of set_epoch().
//
// Why it matters: the sampler's order is drawn from seed + epoch, and the epoch is 0 until it is
// told. Nothing fails; every epoch has the order of the first, on every rank, and the model learns
// from fewer combinations.
//
// set_epoch is often called in another file (36 of 47 public samplers that lack it in theirs), so
// it is looked for in all that the script reaches. One epoch has one order; shuffle=False has none.
#include <fmt/format.h>

#include <algorithm>

#include "fix/rules/loops/loop_rules.hpp"

namespace lockstep {
namespace {

bool calls_set_epoch(const RuleInput& input, const ScriptFacts& script) {
  const auto in = [&](FileId file) {
    return text_of(input, file).find("set_epoch") != std::string_view::npos;
  };
  const auto files = input.project.with_imports(script.code.script);
  return std::ranges::any_of(files, in) ||
         std::ranges::any_of(script.code.all, [&](const CallAt& item) {
           return item.call->last_name() == "set_epoch";
         });
}

// By a script beside this one that takes the loader from the same file.
bool is_told_elsewhere(const RuleInput& input, FileId made_in) {
  for (FileId file = 0; file < input.project.size(); ++file) {
    if (input.project.file(file).text().find(".set_epoch(") == std::string::npos) continue;
    const auto imported = input.project.with_imports(file);
    if (std::ranges::find(imported, made_in) != imported.end()) return true;
  }
  return false;
}

// dataset.shuffle(epoch): the order is another way's.
bool shuffles_by_itself(const ScriptFacts& script) {
  return std::ranges::any_of(script.code.all, [](const CallAt& item) {
    return item.call->last_name() == "shuffle" && item.call->positional(0) != nullptr &&
           item.call->positional(0)->value.text().find("epoch") != std::string_view::npos;
  });
}

bool runs_once(const EpochLoop& epochs) {
  const std::string_view range = epochs.loop.field("right").text();
  return range == "range(1)";
}

// The sampler by a name that is to be seen from a place, else the loader's own.
std::string sampler_words(const RuleInput& input, const TrainingLoop& loop, const CallAt& loader,
                          const CallAt& sampler, const EpochLoop& epochs) {
  const PythonModule& module = module_of(input, epochs.file);
  const Node scope = function_around(epochs.loop);
  const auto name_of = [&](const CallAt& made) -> std::string {
    if (made.file != epochs.file) return "";
    for (const PythonAssignment& item : module.assignments()) {
      // self.x means something within its class alone
      const bool of_this_class =
          item.target.starts_with("self.") &&
          epochs.loop.enclosing("class_definition") == item.statement.enclosing("class_definition");
      if (item.value == made.call->node && !item.element &&
          (item.target.starts_with("self.") ? of_this_class
                                            : item.function == scope || !item.function))
        return item.target;
    }
    return "";
  };
  if (std::string name = name_of(sampler); !name.empty()) return name;
  if (std::string name = name_of(loader); !name.empty()) return name + ".sampler";
  if (epochs.file == loop.file && scope == loop.function && loop.source &&
      (loop.source.is("identifier") || loop.source.is("attribute")))
    return std::string(loop.source.text()) + ".sampler";
  return "";
}

std::string told_the_epoch(std::string_view text, const std::string& sampler,
                           const std::string& epoch, bool always) {
  const std::string line = fmt::format("{}.set_epoch({})", sampler, epoch);
  return always ? line
                : fmt::format("if hasattr({}, \"set_epoch\"):\n{}{}", sampler, indent_step(text),
                              line);
}

}  // namespace

void set_epoch(const RuleInput& input, const ScriptFacts& script,
               std::vector<CodeFinding>& findings) {
  if (!script.code.accelerators.empty() || !script.code.trainers.empty() ||
      calls_set_epoch(input, script) || shuffles_by_itself(script))
    return;
  for (const TrainingLoop* const one : script.all_loops())
    for (const TrainingLoop& loop = *one; const CallAt& loader : loop.loaders) {
      const PythonArgument* const given = loader.call->argument("sampler");
      if (given == nullptr) continue;
      for (const CallAt& sampler :
           script.origins->calls(loader.file, given->value, {"DistributedSampler"})) {
        if (const PythonArgument* const shuffle = sampler.call->argument("shuffle");
            shuffle != nullptr && bool_value(shuffle->value) != true)
          continue;
        if (is_told_elsewhere(input, sampler.file)) continue;
        const auto epochs = epoch_loops(*script.origins, loop);
        if (epochs.empty() || std::ranges::all_of(epochs, runs_once)) continue;
        std::vector<Change> files;
        const Origins ways = script.origins->of(loader.file, given->value);
        // and not None in a run of one process
        const bool always = ways.complete && ways.all.size() == 1;
        if (epochs.size() == 1 && !epochs.front().counter.empty())
          if (const std::string name = sampler_words(input, loop, loader, sampler, epochs.front());
              !name.empty())
            files.push_back({epochs.front().file,
                             first_in_body(text_of(input, epochs.front().file), epochs.front().loop,
                                           told_the_epoch(text_of(input, epochs.front().file), name,
                                                          epochs.front().counter, always))});
        propose({.code = FindingCode::set_epoch_missing,
                 .confidence = 0.9,
                 .where = {place_of(sampler.file, sampler.call->node),
                           place_of(epochs.front().file, epochs.front().loop)},
                 .reason = "the DistributedSampler is never told the epoch: every epoch has the "
                           "order of the first",
                 .description = "call set_epoch(epoch) on the sampler before each epoch",
                 .effect = "a new order each epoch, the same on all ranks",
                 .changes = "the order of the data from the second epoch on",
                 .files = std::move(files)},
                findings);
      }
    }
}

}  // namespace lockstep
