#include <algorithm>
#include <array>

#include "fix/rule.hpp"

namespace lockstep {

void plain_python(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);
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

namespace {

constexpr std::array kRules = {
    Rule{"device-map", device_map, nullptr},
    Rule{"plain-python", plain_python, nullptr},
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
    Rule{"preset", preset_of_script, preset_of_file},
};

constexpr std::array kFound = {
    FindingCode::taking_turns, FindingCode::idle_gpus, FindingCode::ranks_share_a_gpu, FindingCode::loader_without_workers, FindingCode::pageable_copies,
    FindingCode::workers_restarted_each_epoch, FindingCode::host_sync_every_step, FindingCode::logging_too_often, FindingCode::checkpoint_stall, FindingCode::launch_bound,
    FindingCode::exposed_collectives, FindingCode::find_unused_parameters, FindingCode::batch_too_small, FindingCode::tensor_cores_unused, FindingCode::unfused_optimizer,
    FindingCode::world_size_not_set, FindingCode::unknown_training_argument, FindingCode::unknown_accelerate_field, FindingCode::legacy_launcher, FindingCode::more_ranks_than_gpus,
};

}  // namespace

std::span<const Rule> all_rules() { return kRules; }

bool fix_looks_for(FindingCode code) { return std::find(kFound.begin(), kFound.end(), code) != kFound.end(); }

}  // namespace lockstep
