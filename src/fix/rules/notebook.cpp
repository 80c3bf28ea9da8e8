// Finds notebooks that train in their one process.
//
// Why it costs: a notebook is one process; Trainer falls back to nn.DataParallel there, Accelerate
// and a plain loop use one GPU. Accelerate's notebook_launcher starts one process per GPU from
// within a notebook: the training has to be a function, and no cell may have touched CUDA before,
// since CUDA does not live through a fork.
//
// Only advice: which cells belong into the function is not in the code. A plain loop is spoken of
// where several GPUs are known (--gpus).
#include <fmt/format.h>

#include <algorithm>

#include "fix/rules/loops/loop_rules.hpp"

namespace lockstep {

void notebook(const RuleInput& input, const ScriptFacts& script,
              std::vector<CodeFinding>& findings) {
  const SourceFile& file = input.project.file(script.code.script);
  const bool several = input.wishes.gpus.value_or(0) > 1;
  if (!file.is_notebook() || !script.code.starts_itself.empty()) return;
  if (!script.code.trains() && (script.loops.empty() || !several || !asks_for_cuda(input, script)))
    return;
  if (script.code.sees_one_gpu) return;
  const bool is_split = std::ranges::any_of(script.code.loads, [&](const CallAt& load) {
    return split_map(input.project, load).has_value();
  });
  if (is_split) return;  // P101 speaks of it
  const Node where = !script.code.trainers.empty() ? script.code.trainers.front().call->node
                     : !script.code.accelerators.empty()
                         ? script.code.accelerators.front().call->node
                     : !script.loops.empty() ? script.loops.front().loop
                                             : Node();
  if (!where) return;
  propose(
      {.code = FindingCode::world_size_not_set,
       .severity = several ? Severity::warning : Severity::info,
       .confidence = several ? 0.85 : 0.6,
       .where = {place_of(script.code.script, where)},
       .reason = "a notebook is one process: on several GPUs it trains on one of them, or through "
                 "nn.DataParallel",
       .description = fmt::format(
           "put the training into a function that makes everything itself, and start it with "
           "accelerate's notebook_launcher(train, num_processes={}); no cell may touch CUDA before",
           several ? *input.wishes.gpus : 2),
       .effect = "one process per GPU, from within the notebook",
       .changes =
           "the global batch grows N times; what the function makes is not seen by later cells"},
      findings);
}

}  // namespace lockstep
