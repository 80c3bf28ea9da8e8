// Finds one seed on every rank of a run whose ranks draw random numbers while they train.
//
// Why it matters: with torch.manual_seed(42) on every rank, dropout masks and random transforms are
// the same on all of them: N GPUs see N different samples through one mask. The model's start must
// be alike (DDP sees to that), and so must the sampler's seed and random splits.
//
// So a patch comes only where no split, shuffle or model choice depends on the global generator;
// and where nothing random is seen in training, nothing is said.
#include <fmt/format.h>

#include <algorithm>

#include "fix/rules/loops/loop_rules.hpp"

namespace lockstep {
namespace {

bool has_words(const RuleInput& input, const ScriptFacts& script,
               std::initializer_list<std::string_view> words) {
  const auto files = files_of(script);
  return std::ranges::any_of(files, [&](FileId file) {
    return std::ranges::any_of(words, [&](std::string_view word) {
      return text_of(input, file).find(word) != std::string_view::npos;
    });
  });
}

}  // namespace

void same_seed(const RuleInput& input, const ScriptFacts& script,
               std::vector<CodeFinding>& findings) {
  if (!is_hand_made_ddp(script) || script.loops.empty()) return;
  const bool random =
      has_words(input, script,
                {"Dropout", "dropout", "RandomCrop", "RandomResizedCrop", "RandomHorizontalFlip",
                 "RandAugment", "ColorJitter", "randn(", "randn_like", "torch.rand"});
  if (!random) return;
  const bool must_agree =
      has_words(input, script,
                {"random_split", "train_test_split", "torch.randperm", "np.random",
                 "random.shuffle", "random.sample", "RandomSampler", "Subset"});
  for (const CallAt& item : script.code.all) {
    if (item.call->full_name != "torch.manual_seed" &&
        item.call->full_name != "torch.cuda.manual_seed" &&
        item.call->full_name != "torch.cuda.manual_seed_all")
      continue;
    const PythonArgument* const seed = item.call->positional(0);
    if (seed == nullptr) continue;
    const Origins origins = script.origins->of(item.file, seed->value);
    const bool number =
        !origins.all.empty() && std::ranges::all_of(origins.all, [](const Origin& origin) {
          return number_value(origin.expression).has_value();
        });
    if (!number || !origins.complete || names_a_rank(item.call->node) ||
        runs_on_every_rank(*script.origins, item.file, item.call->node) != true)
      continue;
    // A second, rank's own seed may follow.
    const bool reseeded = std::ranges::any_of(script.code.all, [&](const CallAt& other) {
      return other.call->last_name().find("seed") != std::string_view::npos &&
             other.call != item.call && names_a_rank(other.call->node);
    });
    if (reseeded) continue;
    propose({.code = FindingCode::same_seed_every_rank,
             .severity = Severity::info,
             .safety = FixSafety::manual,
             .confidence = 0.6,
             .where = {place_of(item.file, item.call->node)},
             .reason = "every rank draws from the same seed: dropout masks and random transforms "
                       "are the same on all of them",
             .description = fmt::format(
                 "after the model and the data are made, seed once more with the rank: "
                 "torch.manual_seed({} + rank){}",
                 seed->value.text(),
                 must_agree ? "; the splits of the data must keep the common seed" : ""),
             .effect = "N ranks see N masks",
             .changes = "the random numbers of all ranks but the first"},
            findings);
    break;
  }
}

}  // namespace lockstep
