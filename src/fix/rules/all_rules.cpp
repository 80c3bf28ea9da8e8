#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "fix/rule.hpp"

namespace lockstep {

void plain_python(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void ranks_by_hand(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void device_map(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void attention(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void legacy_launcher(const RuleInput&, FileId, std::vector<CodeFinding>&);
void launcher_counts(const RuleInput&, FileId, std::vector<CodeFinding>&);
void accelerate_config(const RuleInput&, FileId, std::vector<CodeFinding>&);
void deepspeed_config(const RuleInput&, FileId, std::vector<CodeFinding>&);
void unknown_in_script(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void unknown_in_file(const RuleInput&, FileId, std::vector<CodeFinding>&);
void logging_of_script(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void logging_of_file(const RuleInput&, FileId, std::vector<CodeFinding>&);
void loader_of_script(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void loader_of_file(const RuleInput&, FileId, std::vector<CodeFinding>&);
void ddp_of_script(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void ddp_of_file(const RuleInput&, FileId, std::vector<CodeFinding>&);
void saving_of_script(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void saving_of_file(const RuleInput&, FileId, std::vector<CodeFinding>&);
void precision_of_script(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void preset_of_script(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void preset_of_file(const RuleInput&, FileId, std::vector<CodeFinding>&);
void hand_loader(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void batch_copies(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void sampler(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void set_epoch(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void uneven_shards(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void reads_each_step(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void gradient_sync(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void clipping(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void wrap_order(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void bare_module(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void accumulation_boundary(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void collectives_each_step(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void rank_as_device(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void portable_checkpoints(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void rank_conditions(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void every_rank_saves(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void same_seed(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void divisible_accumulation(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void environment_of_script(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void to_ddp(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void notebook(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void short_of_memory(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void lightning_step(const RuleInput&, FileId, std::vector<CodeFinding>&);
void lightning_loader(const RuleInput&, FileId, std::vector<CodeFinding>&);
void lightning_trainer(const RuleInput&, FileId, std::vector<CodeFinding>&);
void lightning_trainer_of_hydra(const RuleInput&, FileId, std::vector<CodeFinding>&);
void lightning_devices(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
void loader_config(const RuleInput&, FileId, std::vector<CodeFinding>&);
void environment_of_file(const RuleInput&, FileId, std::vector<CodeFinding>&);

namespace {

constexpr std::array kRules = {
    Rule{"device-map", device_map, nullptr},
    Rule{"plain-python", plain_python, nullptr},
    Rule{"ranks-by-hand", ranks_by_hand, nullptr},
    Rule{"legacy-launcher", nullptr, legacy_launcher},
    Rule{"launcher-counts", nullptr, launcher_counts},
    Rule{"accelerate-config", nullptr, accelerate_config},
    Rule{"unknown-arguments", unknown_in_script, unknown_in_file},
    Rule{"logging", logging_of_script, logging_of_file},
    Rule{"loader", loader_of_script, loader_of_file},
    Rule{"ddp", ddp_of_script, ddp_of_file},
    Rule{"saving", saving_of_script, saving_of_file},
    Rule{"precision", precision_of_script, nullptr},
    Rule{"attention", attention, nullptr},
    Rule{"deepspeed-config", nullptr, deepspeed_config},
    Rule{"to-ddp", to_ddp, nullptr},
    Rule{"notebook", notebook, nullptr},
    Rule{"short-of-memory", short_of_memory, nullptr},
    Rule{"hand-loader", hand_loader, nullptr},
    Rule{"batch-copies", batch_copies, nullptr},
    Rule{"sampler", sampler, nullptr},
    Rule{"set-epoch", set_epoch, nullptr},
    Rule{"uneven-shards", uneven_shards, nullptr},
    Rule{"reads-each-step", reads_each_step, nullptr},
    Rule{"gradient-sync", gradient_sync, nullptr},
    Rule{"clipping", clipping, nullptr},
    Rule{"wrap-order", wrap_order, nullptr},
    Rule{"bare-module", bare_module, nullptr},
    Rule{"accumulation-boundary", accumulation_boundary, nullptr},
    Rule{"collectives-each-step", collectives_each_step, nullptr},
    Rule{"rank-as-device", rank_as_device, nullptr},
    Rule{"portable-checkpoints", portable_checkpoints, nullptr},
    Rule{"rank-conditions", rank_conditions, nullptr},
    Rule{"every-rank-saves", every_rank_saves, nullptr},
    Rule{"same-seed", same_seed, nullptr},
    Rule{"divisible-accumulation", divisible_accumulation, nullptr},
    Rule{"harmful-environment", environment_of_script, environment_of_file},
    Rule{"lightning-step", nullptr, nullptr, lightning_step},
    Rule{"lightning-loader", nullptr, nullptr, lightning_loader},
    Rule{"lightning-trainer", nullptr, lightning_trainer_of_hydra, lightning_trainer},
    Rule{"lightning-devices", lightning_devices, nullptr},
    Rule{"loader-config", nullptr, loader_config},
    Rule{"preset", preset_of_script, preset_of_file},
};

}  // namespace

std::span<const Rule> all_rules() { return kRules; }

bool names_rule(const FindingName& row, std::string_view rule) {
  const auto names = split(row.rules, ' ');
  return std::ranges::find(names, rule) != names.end();
}

}  // namespace lockstep
