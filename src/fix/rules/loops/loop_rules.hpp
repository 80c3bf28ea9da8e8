// What the rules about hand-written training loops share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fix/facts/rank_paths.hpp"
#include "fix/facts/training_loop.hpp"
#include "fix/python/statements.hpp"
#include "fix/rule.hpp"
#include "fix/settings/argument_set.hpp"

namespace lockstep {

struct LoopFix {
  FindingCode code;
  Severity severity = Severity::warning;
  FixSafety safety = FixSafety::unsafe;
  double confidence = 0.8;
  std::vector<Place> where;
  std::string reason;
  std::string description;
  std::string effect;
  std::string changes;
  std::vector<Change> files;  // empty: it is only shown
};
void propose(LoopFix fix, std::vector<CodeFinding>& findings);

// The text of a file, and its module, for those that edit it.
inline std::string_view text_of(const RuleInput& input, FileId file) {
  return input.project.file(file).text();
}
inline const PythonModule& module_of(const RuleInput& input, FileId file) {
  return *input.project.file(file).python();
}

// The script, and the files of the project in which it reaches code.
std::set<FileId> files_of(const ScriptFacts& script);
// The class of a name in any of them; none: there is none.
Node class_named(const RuleInput& input, const ScriptFacts& script, std::string_view name);

// Edits of one file with the import that they need.
std::vector<Edit> with_import(std::vector<Edit> edits, const PythonModule& module,
                              std::string_view name);
// `from module import name`, unless the file has it under that name.
std::vector<Edit> needed_from_import(const PythonModule& module, std::string_view from,
                                     std::string_view name);

// Whether the script's own code asks for a GPU at all.
bool asks_for_cuda(const RuleInput& input, const ScriptFacts& script);
// The name by which a turn calls the model that DDP wraps ("model", "self.ddp"); empty: it is not
// seen.
std::string wrapped_model(const ScriptFacts& script, const TrainingLoop& loop);
// The DistributedDataParallel(...) calls that a value may come from.
std::vector<CallAt> wraps_of(const ScriptFacts& script, FileId file, Node expression);
// Whether a loop is that of a run of several ranks that the script itself puts together.
bool is_hand_made_ddp(const ScriptFacts& script);

// A file that is started by itself, from which this script takes a function: what else it does is
// its own run's.
inline bool is_another_script(const RuleInput& input, const ScriptFacts& script, FileId file) {
  return file != script.code.script && looks_like_a_script(input.project.file(file));
}

// The copies of a loop's batch to a GPU that do not say non_blocking.
std::vector<const PythonCall*> waiting_copies(const RuleInput& input, const ScriptFacts& script,
                                              const TrainingLoop& loop);

// Whether every run joins a group, also one of one process.
bool joins_always(const ScriptFacts& script);

// A loader's dataset, and whether it is streamed: samplers and workers do not fit one.
Node dataset_of(const PythonCall& loader);
bool is_streamed(const RuleInput& input, const ScriptFacts& script, const CallAt& loader);

// What a value is made of: its origins, and those of the names in them, some steps back.
std::vector<Origin> ingredients_of(const ScriptFacts& script, FileId file, Node expression);

// Calls that stand in a turn of the loop, in order.
std::vector<const PythonCall*> calls_in_turn(const RuleInput& input, const TrainingLoop& loop);
// How many times a name is given a value within a loop's body.
bool is_assigned_in(const RuleInput& input, const TrainingLoop& loop, std::string_view name);
// "train.py:12", for a reason that speaks of another line.
std::string words_of(const RuleInput& input, FileId file, Node node);

}  // namespace lockstep
