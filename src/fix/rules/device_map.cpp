// Finds a model that is split over the GPUs and then trained.
//
// Why it costs: device_map="auto" (balanced, sequential) puts one part of the layers on each GPU. In training a batch walks
// through the parts one after the other and back, so at any moment one GPU works: N GPUs give the speed of one. It is meant
// for inference of models that fit no single GPU.
//
// What stands in its place: nothing, since Trainer and Accelerate place the model themselves; {"": LOCAL_RANK} for 4- and
// 8-bit models, which cannot be moved once loaded, and where the script uses the model before it trains.
//
// Silent for scripts that do not train the model they load, and for those that already choose by rank.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <regex>

#include "base/text.hpp"
#include "fix/rules/global_batch.hpp"
#include "fix/rules/model_size.hpp"
#include "fix/settings/argument_set.hpp"

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 4> kSplits = {"auto", "balanced", "balanced_low_0", "sequential"};
constexpr std::string_view kOwnGpu = R"({"": int(os.environ.get("LOCAL_RANK", 0))})";

// In the quotes of the word it takes the place of.
std::string own_gpu(std::string_view instead_of) {
  std::string map(kOwnGpu);
  if (instead_of.starts_with('\'')) std::replace(map.begin(), map.end(), '"', '\'');
  return map;
}

// Where the split is written, and how it can be changed.
struct Split {
  FileId file = 0;
  Node value;              // the "auto"
  const PythonCall* call;  // the load
  bool direct = false;     // an argument of the load itself, which can be taken away
  std::string word;
};

bool is_split_word(const std::optional<std::string>& word) { return word && std::find(kSplits.begin(), kSplits.end(), *word) != kSplits.end(); }

bool speaks_of_ranks(Node expression) {
  const std::string_view text = expression.text();
  for (const char* word : {"LOCAL_RANK", "local_rank", "process_index", "current_device", "ddp", "world_size", "WORLD_SIZE", "get_rank", "kbit_device_map", "rank"})
    if (text.find(word) != std::string_view::npos) return true;
  return false;
}

// The value that a load's device_map has, over one variable or a dict(...) that is passed with **.
std::optional<Split> split_of(const Project& project, FileId file, const PythonCall& call) {
  const PythonModule& module = *project.file(file).python();
  Split split{file, {}, &call, false, ""};
  const PythonArgument* const argument = call.argument("device_map");
  if (argument != nullptr && string_value(argument->value)) {
    split.value = argument->value;
    split.direct = true;
  } else if (argument != nullptr && argument->value.is("identifier")) {
    const auto assigned = module.assigned(argument->value.text());
    if (assigned.size() != 1 || !module.only_value_of(argument->value.text())) return std::nullopt;  // it may be another one by rank
    if (const Node around = assigned.front()->statement.enclosing("if_statement"); around && speaks_of_ranks(around.field("condition"))) return std::nullopt;
    split.value = assigned.front()->value;
  } else if (argument == nullptr && call.has_splat) {
    for (const Node& splat : call.list.children()) {
      if (!splat.is("dictionary_splat") || !splat.child(0).is("identifier")) continue;
      const Node made = module.only_value_of(splat.child(0).text());
      for (const PythonCall& other : module.calls())
        if (other.node == made && other.callee == "dict" && other.argument("device_map") != nullptr) split.value = other.argument("device_map")->value;
      if (made.is("dictionary"))
        for (const Node& pair : made.children())
          if (pair.is("pair") && string_value(pair.field("key")) == "device_map") split.value = pair.field("value");
    }
  }
  const auto word = string_value(split.value);
  if (!is_split_word(word)) return std::nullopt;
  split.word = *word;
  return split;
}

bool is_quantised(const TrainingCode& code, const PythonCall& call) {
  for (const char* name : {"load_in_4bit", "load_in_8bit", "quantization_config"})
    if (const PythonArgument* const argument = call.argument(name); argument != nullptr && !is_none(argument->value) && bool_value(argument->value) != false) return true;
  return call.has_splat && std::any_of(code.all.begin(), code.all.end(), [](const CallAt& item) { return item.call->last_name() == "BitsAndBytesConfig"; });
}

// generate() before train() needs the model on a GPU already.
bool is_used_before_training(const TrainingCode& code) {
  return std::any_of(code.all.begin(), code.all.end(), [](const CallAt& item) { return item.call->last_name() == "generate" || item.call->callee == "pipeline"; });
}

std::string era_words(const Versions& versions) {
  const auto found = versions.find("transformers");
  if (found == versions.end()) return "";
  const Version& version = found->second.version;
  const std::string name = fmt::format("Transformers {} ({})", version.text(), found->second.from);
  if (version < *Version::parse("4.50")) return fmt::format("; under torchrun {} ends with \"You can't train a model that has been loaded with `device_map='auto'` in any distributed mode\"", name);
  if (version < *Version::parse("4.54")) return fmt::format("; under torchrun {} silently turns it into tensor parallelism, and DDP then fails on DTensor parameters", name);
  return fmt::format("; under torchrun {} prints a line about it and then ends with \"You can't train a model that has been loaded with `device_map='auto'`\"", name);
}

// model.is_parallelizable = True and model.model_parallel = True, which tell Trainer that the model is split.
std::vector<PythonAssignment> flags_of(const PythonModule& module) {
  std::vector<PythonAssignment> flags;
  for (const PythonAssignment& item : module.assignments())
    if ((item.target.ends_with(".is_parallelizable") || item.target.ends_with(".model_parallel")) && bool_value(item.value) == true &&
        !speaks_of_ranks(item.statement.enclosing("if_statement").field("condition")))
      flags.push_back(item);
  return flags;
}

// Each flag's line; the whole condition around them when nothing else stands in it.
std::vector<Edit> without_flags(const PythonModule& module, const std::vector<PythonAssignment>& flags) {
  const std::string_view text = module.tree().source();
  std::vector<Edit> edits;
  for (const PythonAssignment& flag : flags) {
    const Node statement = flag.statement.parent();  // expression_statement
    const Node block = statement.parent();
    Node gone = statement;
    if (block.is("block")) {
      const auto within = block.children();
      const bool only_flags = std::all_of(within.begin(), within.end(), [&](const Node& item) {
        return item.is("comment") || std::any_of(flags.begin(), flags.end(), [&](const PythonAssignment& other) { return other.statement.parent() == item; });
      });
      if (only_flags) {
        const Node owner = block.parent();
        if (!owner.is("if_statement") || owner.field("alternative")) return {};
        gone = owner;
      }
    }
    edits.push_back({line_start(text, gone.from()), line_end(text, gone.to()), ""});
  }
  return in_order(std::move(edits));
}

std::vector<Way> other_ways(const ModelNeeds& needs) {
  std::vector<Way> ways;
  const auto advice = [&](std::string description, std::string effect) {
    Way way;
    way.kind = FixKind::advice;
    way.description = std::move(description);
    way.effect = std::move(effect);
    ways.push_back(std::move(way));
  };
  advice(R"(or one GPU: device_map={"": 0} and CUDA_VISIBLE_DEVICES=0)", "the same speed as now, and the other GPUs are free for other work");
  advice(fmt::format("or FSDP, when the model does not fit one GPU{}: accelerate launch --use_fsdp, without device_map", needs.words.empty() ? "" : " (" + needs.words + ")"),
         "each GPU holds a share of the weights and all work at once; every layer is gathered over the links in each step");
  advice("or, last, an explicit map with one key a layer (\"model.layers.0\": 0, \"model.layers.1\": 0, ...; ranges such as \"model.layers.0-15\" are not understood)",
         "the model fits, and the GPUs still take turns");
  return ways;
}

CodeFinding finding_of(const RuleInput& input, const ScriptFacts& script, const Split& split) {
  const Project& project = input.project;
  const PythonModule& module = *project.file(split.file).python();
  const std::string& text = project.file(split.file).text();
  const TrainingCode& code = script.code;
  const bool quantised = is_quantised(code, *split.call);
  const bool keep_map = quantised || is_used_before_training(code) || !code.trains_with_trainer;
  const ModelNeeds needs = model_needs(module, code, *split.call, quantised);

  CodeFinding finding;
  finding.code = FindingCode::taking_turns;
  finding.severity = Severity::critical;
  finding.reason = fmt::format("device_map=\"{}\" gives each GPU some of the layers; in training one GPU works while the others wait{}", split.word, era_words(project.versions()));
  finding.where = {place_of(split.file, split.value)};
  finding.group = launch_group(code.script);

  Way way;
  Change change{split.file, {}};
  std::vector<Node> gone;  // of the load's arguments
  if (!keep_map && split.direct) {
    gone.push_back(split.call->argument("device_map")->whole);
    way.description = "take device_map away: Trainer puts the whole model on each process's own GPU";
  } else if (!keep_map) {
    change.edits = {{split.value.from(), split.value.to(), "None"}};
    way.description = "no device_map: Trainer puts the whole model on each process's own GPU";
  } else {
    change.edits = {{split.value.from(), split.value.to(), own_gpu(split.value.text())}};
    for (Edit& edit : needed_import(module, "os")) change.edits.push_back(std::move(edit));
    way.description = quantised ? "load the whole model on each process's own GPU; a quantised model cannot be moved afterwards"
                                : "load the whole model on each process's own GPU, where the script uses it before it trains";
  }
  if (const PythonArgument* const limits = split.call->argument("max_memory"); limits != nullptr) gone.push_back(limits->whole);
  for (Edit& edit : without_items(text, gone)) change.edits.push_back(std::move(edit));
  for (Edit& edit : without_flags(module, flags_of(module))) change.edits.push_back(std::move(edit));
  if (!needs.words.empty()) way.description += fmt::format(" ({})", needs.words);
  way.effect = "all GPUs work at once instead of in turns; published: 1.8-1.9x on 2";
  way.changes = batch_words(script, processes_to_be(input, script));
  way.files.push_back(std::move(change));
  // Nobody is helped by a patch that runs out of memory: then FSDP is the way, and that is the user's to choose.
  way.safety = needs.fits_80_gb && (code.trains_with_trainer || code.trains_with_accelerate) ? FixSafety::unsafe : FixSafety::manual;
  const bool too_large = !needs.fits_80_gb;
  if (too_large) way.description = "if it fits after all: " + way.description;
  finding.ways.push_back(std::move(way));
  for (Way& other : other_ways(needs)) finding.ways.push_back(std::move(other));
  if (too_large) std::rotate(finding.ways.begin(), finding.ways.begin() + 2, finding.ways.begin() + 3);  // FSDP first
  if (script.launches.empty() && !too_large) {
    Way start;
    start.kind = FixKind::command;
    start.description = "and start one process a GPU";
    start.command = {"torchrun", "--standalone", input.wishes.gpus ? fmt::format("--nproc_per_node={}", *input.wishes.gpus) : "--nproc_per_node=gpu", project.file(code.script).name()};
    finding.ways.insert(finding.ways.begin() + 1, std::move(start));
  }
  return finding;
}

// {"": 0} is one GPU for one process, and the same GPU for all of many.
void inspect_own_gpu(const RuleInput& input, const ScriptFacts& script, const CallAt& load, std::vector<CodeFinding>& findings) {
  const PythonArgument* const argument = load.call->argument("device_map");
  if (argument == nullptr || !argument->value.is("dictionary")) return;
  const auto pairs = argument->value.children();
  if (pairs.size() != 1 || string_value(pairs[0].field("key")) != "" || !number_value(pairs[0].field("value"))) return;
  const auto many = std::find_if(script.launches.begin(), script.launches.end(), [](const Launch& launch) { return launch.is_distributed() && launch.processes; });
  if (many == script.launches.end()) return;
  const PythonModule& module = *input.project.file(load.file).python();
  CodeFinding finding;
  finding.code = FindingCode::ranks_share_a_gpu;
  finding.severity = Severity::critical;
  finding.reason = fmt::format("{} puts the model of every rank on one GPU, and {} starts {} ranks", argument->value.text(),
                               place_words(input.project, {many->file, many->line->from, many->line->to}), *many->processes);
  finding.where = {place_of(load.file, argument->value)};
  Way way;
  way.safety = FixSafety::unsafe;
  way.description = "load the model on each rank's own GPU";
  way.effect = "each rank has a GPU to itself";
  way.changes = "nothing but where the work is done";
  Change change{load.file, {{argument->value.from(), argument->value.to(), std::string(kOwnGpu)}}};
  for (Edit& edit : needed_import(module, "os")) change.edits.push_back(std::move(edit));
  way.files.push_back(std::move(change));
  finding.ways.push_back(std::move(way));
  findings.push_back(std::move(finding));
}

// "model.layers.0-15": accelerate looks for modules of exactly that name.
void inspect_range_keys(const RuleInput& input, FileId file, std::vector<CodeFinding>& findings) {
  static const std::regex kRange(R"(\.(\d+)-(\d+)$)");
  const PythonModule& module = *input.project.file(file).python();
  for (const Node& dictionary : module.tree().root().descendants("dictionary")) {
    for (const Node& pair : dictionary.children()) {
      const auto key = pair.is("pair") ? string_value(pair.field("key")) : std::nullopt;
      std::smatch found;
      if (!key || !std::regex_search(*key, found, kRange) || !(number_value(pair.field("value")) || string_value(pair.field("value")))) continue;
      CodeFinding finding;
      finding.code = FindingCode::taking_turns;
      finding.severity = Severity::warning;
      finding.reason = fmt::format("a device_map has one key a module: no module is called \"{}\", and loading ends with an error; written out, the parts still take turns in training", *key);
      finding.where = {place_of(file, pair)};
      Way way;
      way.kind = FixKind::advice;
      way.description = fmt::format("write one key a layer, from \"{}\" on; better, no map and one process a GPU", std::regex_replace(*key, kRange, ".$1"));
      finding.ways.push_back(std::move(way));
      findings.push_back(std::move(finding));
      break;
    }
  }
}

}  // namespace

void device_map(const RuleInput& input, const ScriptFacts& script, std::vector<CodeFinding>& findings) {
  const TrainingCode& code = script.code;
  if (code.trains()) {
    bool any = false;
    for (const std::size_t position : code.trained_loads) {
      const CallAt& load = code.loads[position];
      if (const auto split = split_of(input.project, load.file, *load.call)) {
        findings.push_back(finding_of(input, script, *split));
        any = true;
      }
      inspect_own_gpu(input, script, load, findings);
    }
    const PythonModule& module = *input.project.file(code.script).python();
    const auto flags = flags_of(module);
    if (!any && !flags.empty() && code.trains_with_trainer) {
      CodeFinding finding;
      finding.code = FindingCode::taking_turns;
      finding.reason = fmt::format("{} tells Trainer that the model is already split, so that it neither places it nor shares the batch", flags.front().target);
      finding.where = {place_of(code.script, flags.front().statement)};
      finding.group = launch_group(code.script);
      Way way;
      way.safety = FixSafety::unsafe;
      way.description = "take the flags away";
      way.effect = "Trainer uses all GPUs by itself";
      way.changes = batch_words(script, processes_to_be(input, script));
      way.files.push_back({code.script, without_flags(module, flags)});
      if (!way.files.front().edits.empty()) finding.ways.push_back(std::move(way));
      findings.push_back(std::move(finding));
    }
  }
  inspect_range_keys(input, code.script, findings);
}

}  // namespace lockstep
