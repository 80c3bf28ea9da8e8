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
#include <array>
#include <span>
#include <string_view>

#include "fix/rules/loops/loop_rules.hpp"

namespace lockstep {
namespace {

bool has_words(const RuleInput& input, const ScriptFacts& script,
               std::span<const std::string_view> words) {
  const auto files = files_of(script);
  return std::ranges::any_of(files, [&](FileId file) {
    const std::string_view text = text_of(input, file);
    return std::ranges::any_of(words, [&](std::string_view word) {
      auto at = text.find(word);
      // Python's own random, and not NumPy's
      while (at != std::string_view::npos && at > 0 && text[at - 1] == '.' &&
             word.starts_with("random."))
        at = text.find(word, at + 1);
      return at != std::string_view::npos;
    });
  });
}

// Transformers' models have dropout as they come.
constexpr auto kDraws = std::to_array<std::string_view>(
    {"Dropout", "dropout", "RandomCrop", "RandomResizedCrop", "RandomHorizontalFlip", "RandAugment",
     "ColorJitter", "randn(", "randn_like", "torch.rand", "AutoModelFor", "TransformerEncoderLayer",
     "TransformerDecoderLayer"});
constexpr auto kNumpyDraws = std::to_array<std::string_view>(
    {"np.random.rand", "np.random.uniform", "np.random.normal", "np.random.binomial"});
constexpr auto kPythonDraws = std::to_array<std::string_view>(
    {"random.random(", "random.uniform(", "random.randint(", "random.gauss(", "random.randrange("});
constexpr auto kMustAgree = std::to_array<std::string_view>(
    {"random_split", "train_test_split", "torch.randperm", "np.random", "random.shuffle",
     "random.sample", "RandomSampler", "Subset"});

// A seed, and what draws from it while a model trains. Shuffles and splits are left out: all ranks
// must do those alike.
struct SeededBy {
  std::string_view call;
  std::span<const std::string_view> draws;
};
constexpr std::array kSeeds = {
    SeededBy{"torch.manual_seed", kDraws},          SeededBy{"torch.cuda.manual_seed", kDraws},
    SeededBy{"torch.cuda.manual_seed_all", kDraws}, SeededBy{"numpy.random.seed", kNumpyDraws},
    SeededBy{"random.seed", kPythonDraws},
};

}  // namespace

void same_seed(const RuleInput& input, const ScriptFacts& script,
               std::vector<CodeFinding>& findings) {
  if (!is_hand_made_ddp(script) || script.all_loops().empty()) return;
  const bool must_agree = has_words(input, script, kMustAgree);
  for (const CallAt& item : script.code.all) {
    const auto seeded = std::ranges::find(kSeeds, item.call->full_name, &SeededBy::call);
    if (seeded == kSeeds.end() || !has_words(input, script, seeded->draws)) continue;
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
                 "{}({} + rank){}",
                 item.call->callee, seed->value.text(),
                 must_agree ? "; the splits of the data must keep the common seed" : ""),
             .effect = "N ranks see N masks",
             .changes = "the random numbers of all ranks but the first"},
            findings);
    break;
  }
}

}  // namespace lockstep
