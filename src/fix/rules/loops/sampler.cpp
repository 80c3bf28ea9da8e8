// Finds loops under DDP whose ranks all go over all of the data.
//
// Why it costs: without a DistributedSampler every rank makes the whole epoch, so that N GPUs do N
// times the work of one for the same number of passes over the data; and without a shuffle they
// even see the same samples at the same time.
//
// Silent where the data may be shared out in another way: a sampler of any kind, a streamed
// dataset, a dataset that is made with a rank, or one that this file does not show being made.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "fix/rules/loops/loop_rules.hpp"

namespace lockstep {
namespace {

// The way to the data knows of ranks: Subset(data, range(rank, …)), data.shard(world, rank), a
// function that is given the rank.
bool is_shared_out(const RuleInput& input, const ScriptFacts& script, const CallAt& loader) {
  if (!script.origins->of(loader.file, dataset_of(*loader.call)).complete) return true;
  for (const Origin& origin : ingredients_of(script, loader.file, dataset_of(*loader.call))) {
    if (speaks_of_ranks(origin.expression)) return true;
    const PythonCall* const made = script.origins->call_at(origin.file, origin.expression);
    if (made == nullptr) continue;
    if (const Node own = class_named(input, script, made->last_name()); own && speaks_of_ranks(own))
      return true;
  }
  return false;
}

bool writes_each_turn(const RuleInput& input, const TrainingLoop& loop) {
  static constexpr std::array<std::string_view, 10> kWrites = {
      "save",   "dump",     "savez",      "savetxt",     "imwrite",
      "to_csv", "writerow", "save_image", "write_image", "imsave"};
  const auto calls = calls_in_turn(input, loop);
  return std::ranges::any_of(calls, [&](const PythonCall* call) {
    return std::ranges::find(kWrites, call->last_name()) != kWrites.end() &&
           in_every_turn(loop.loop, call->node);
  });
}

}  // namespace

void sampler(const RuleInput& input, const ScriptFacts& script,
             std::vector<CodeFinding>& findings) {
  if (!is_hand_made_ddp(script)) return;
  for (const TrainingLoop* const one : script.all_loops()) {
    const TrainingLoop& loop = *one;
    if (loop.by_library || (!loop.turn && wrapped_model(script, loop).empty()) ||
        loop.loaders.size() != 1)
      continue;
    const CallAt& loader = loop.loaders.front();
    const ArgumentSet arguments = ArgumentSet::of_call(*loader.call);
    if (arguments.is_open() || arguments.has("sampler") || arguments.has("batch_sampler") ||
        loader.call->positional(2) != nullptr || is_streamed(input, script, loader) ||
        is_shared_out(input, script, loader))
      continue;
    const std::string_view text = text_of(input, loader.file);
    const PythonModule& module = module_of(input, loader.file);
    const Node dataset = dataset_of(*loader.call);
    const Setting* const shuffle = arguments.find("shuffle");
    const bool by_name = dataset.is("identifier") || dataset.is("attribute");
    const bool known_shuffle = shuffle == nullptr || shuffle->truth.has_value();
    std::vector<Change> files;
    const auto epochs = epoch_loops(*script.origins, loop);
    const bool shuffles = shuffle != nullptr && shuffle->truth == true;
    // The order must change with the epoch, too: the loader has to be seen from the loop over
    // epochs.
    std::string named;
    for (const PythonAssignment& item : module.assignments())
      if (item.value == loader.call->node && !item.element) named = item.target;
    // A generator that goes over the loader again and again has an order to change, too.
    const bool endless =
        epochs.empty() && std::ranges::any_of(script.code.all, [&](const CallAt& item) {
          return item.call->last_name() == "next" || item.call->last_name() == "cycle";
        });
    const bool told =
        !shuffles || (epochs.empty() && !endless) ||
        (epochs.size() == 1 && !epochs.front().counter.empty() &&
         epochs.front().file == loader.file && !named.empty() &&
         (function_around(epochs.front().loop) == function_around(loader.call->node) ||
          !function_around(loader.call->node)));
    // Shared out, a loop that writes one thing for each sample would write a part on each rank.
    const bool writes = writes_each_turn(input, loop);
    // A DistributedSampler needs the group: not where a run of one process does without.
    if (by_name && known_shuffle && told && !writes && joins_always(script)) {
      std::vector<Edit> edits;
      const std::string made = fmt::format("DistributedSampler({}{})", dataset.text(),
                                           shuffles ? "" : ", shuffle=False");
      if (shuffle != nullptr)
        edits.push_back({shuffle->whole.from(), shuffle->whole.to(), "sampler=" + made});
      else
        edits = arguments.set(text, "sampler", made);
      for (Edit& edit :
           needed_from_import(module, "torch.utils.data.distributed", "DistributedSampler"))
        edits.push_back(std::move(edit));
      if (shuffles && !epochs.empty())
        for (Edit& edit :
             first_in_body(text, epochs.front().loop,
                           fmt::format("{}.sampler.set_epoch({})", named, epochs.front().counter)))
          edits.push_back(std::move(edit));
      files.push_back({loader.file, in_order(std::move(edits))});
    }
    propose(
        {.code = FindingCode::unsharded_data,
         .severity = Severity::critical,
         .confidence = 0.85,
         .where = {place_of(loader.file, loader.call->node), place_of(loop.file, loop.loop)},
         .reason = "the model is wrapped in DDP, and the loader has no DistributedSampler: "
                   "every rank goes over all of the data",
         .description = std::string(shuffles ? "share the data out with a DistributedSampler (the "
                                               "shuffle moves into it), and tell it the epoch"
                                             : "share the data out with a DistributedSampler") +
                        (endless ? "; what goes over it again and again has to tell it which time "
                                   "it is: sampler.set_epoch(n)"
                                 : "") +
                        (writes ? "; the loop writes in every turn: each rank would write its "
                                  "part alone, so look at that first"
                                : ""),
         .effect = "an epoch takes 1/N of the steps on N ranks",
         .changes = "steps in an epoch: 1/N; the order of the data; a schedule counted in "
                    "steps ends later",
         .files = std::move(files)},
        findings);
  }
}

}  // namespace lockstep
