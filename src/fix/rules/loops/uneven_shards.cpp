// Finds data that is cut among ranks by hand so that some may have a batch more.
//
// Why it matters: data[rank::world] gives the first ranks one sample more when it does not divide;
// with a batch more on some, their last all-reduce waits for ranks that have left the loop, until
// the timeout. DistributedSampler pads instead.
//
// drop_last=True makes it rarer and does not end it (9 and 8 samples in batches of 3 are 3 and 2),
// so nothing is patched.
#include <algorithm>

#include "fix/rules/loops/loop_rules.hpp"

namespace lockstep {
namespace {

// data[rank::world], Subset(data, range(rank, len(data), world))
bool is_strided(Node expression) {
  const auto slices = expression.descendants("slice");
  if (std::ranges::any_of(slices, [](const Node& slice) {
        return slice.children().size() >= 2 && names_a_rank(slice.child(0)) &&
               slice.text().find("::") != std::string_view::npos;
      }))
    return true;
  for (const Node& call : expression.descendants("call"))
    if (call.field("function").text() == "range" &&
        call.field("arguments").children().size() == 3 &&
        names_a_rank(call.field("arguments").child(0)))
      return true;
  return false;
}

}  // namespace

void uneven_shards(const RuleInput&, const ScriptFacts& script,
                   std::vector<CodeFinding>& findings) {
  if (!is_hand_made_ddp(script)) return;
  const bool joins = std::ranges::any_of(script.code.all, [](const CallAt& item) {
    return item.call->last_name() == "Join" ||
           (item.call->last_name() == "join" && item.call->arguments.empty() &&
            item.call->callee.find("model") != std::string::npos);
  });
  if (joins) return;
  for (const TrainingLoop* const loop : script.all_loops())
    for (const CallAt& loader : loop->loaders) {
      const PythonArgument* const drop = loader.call->argument("drop_last");
      if (drop != nullptr && bool_value(drop->value) != false) continue;
      for (const Origin& origin : ingredients_of(script, loader.file, dataset_of(*loader.call))) {
        if (!is_strided(origin.expression)) continue;
        propose(
            {.code = FindingCode::uneven_batches,
             .confidence = 0.7,
             .where = {place_of(origin.file, origin.expression),
                       place_of(loader.file, loader.call->node)},
             .reason =
                 "the data is cut among the ranks by hand: where it does not divide, some have a "
                 "sample more, and perhaps a batch more, which the others' all-reduce never meets",
             .description =
                 "let a DistributedSampler share it out (it pads to the same length), or cut to a "
                 "multiple of world size x batch, or wrap the loop in `with model.join():`",
             .effect = "all ranks leave the epoch together",
             .changes = "a few samples are seen twice or left out"},
            findings);
        break;
      }
    }
}

}  // namespace lockstep
