// What happens to the batch when one process becomes N, and how to keep it as it was.
#pragma once

#include <optional>
#include <string>

#include "fix/rule.hpp"

namespace lockstep {

// Whether a model that is trained is loaded with a map, of whatever kind.
bool trains_a_split_model(const Project& project, const TrainingCode& code);

// How many processes the script's plain launch line would become, when that is known.
std::optional<int> processes_to_be(const RuleInput& input, const ScriptFacts& script);

// Where a launch-aware script divides its own batch or accumulation by the ranks, when it does.
struct OwnBranch {
  std::string name;  // "gradient_accumulation_steps"
  Place place;
};
std::optional<OwnBranch> own_batch_branch(const Project& project, const ScriptFacts& script);
// Why that division would leave nothing to accumulate, by the numbers on the line or the script's
// defaults; empty: it would not.
std::string own_branch_fails(const Project& project, const ScriptFacts& script,
                             const Launch& launch, std::optional<int> processes);

// What the reader must know of the results: "the global batch becomes 2 times larger ...".
std::string batch_words(const RuleInput& input, const ScriptFacts& script,
                        std::optional<int> processes);

// What a run of several processes needs beside its launch line, and what each of them would do for
// itself: questions, splits without a seed, folders named after a W&B run. Adapters under reentrant
// gradient checkpointing: Trainer asks DDP to look for unused parameters in a PeftModel, and DDP
// then ends with "Expected to mark a variable ready only once".
struct Companion {
  std::optional<Change> change;  // ddp_find_unused_parameters=False
  std::string words;
  bool possible = true;  // false: needed, and there is no place to write it
};
Companion companion_of(const RuleInput& input, const ScriptFacts& script);

// The edits that divide the accumulation (or the batch) by N, where the numbers are written in the
// code and N is known. A way without edits says why there are none; nothing: there is nothing to
// say.
std::optional<Way> same_global_batch(const RuleInput& input, const ScriptFacts& script,
                                     std::optional<int> processes);

}  // namespace lockstep
