// Finds a model that is split over the GPUs and then trained.
//
// Why it costs: device_map="auto" (balanced, sequential) puts one part of the layers on each GPU.
// In training a batch walks through the parts one after the other and back, so at any moment one
// GPU works: N GPUs give the speed of one. It is meant for inference of models that fit no single
// GPU.
//
// What stands in its place: nothing, since Trainer and Accelerate place the model themselves; {"":
// LOCAL_RANK} for 4- and 8-bit models, which cannot be moved once loaded, and where the script uses
// the model before it trains.
//
// Silent for scripts that do not train the model they load, and for those that already choose by
// rank.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <regex>

#include "base/text.hpp"
#include "fix/rules/arguments/global_batch.hpp"
#include "fix/rules/launching/model_size.hpp"
#include "fix/rules/launching/rank_hazards.hpp"
#include "fix/settings/argument_set.hpp"

namespace lockstep {
namespace {

// "cuda" is cuda:0 on every rank, whatever GPU the model is on.
constexpr std::array<std::string_view, 4> kBareCuda = {".to(\"cuda\")", ".to('cuda')", ".cuda()",
                                                       "device=\"cuda\""};
constexpr std::string_view kOwnGpu = R"({"": int(os.environ.get("LOCAL_RANK", 0))})";

// In the quotes of the word it takes the place of.
std::string own_gpu(std::string_view instead_of) {
  std::string map(kOwnGpu);
  if (instead_of.starts_with('\'')) std::ranges::replace(map, '"', '\'');
  return map;
}

bool is_quantised(const TrainingCode& code, const PythonCall& call) {
  for (const char* name : {"load_in_4bit", "load_in_8bit", "quantization_config"})
    if (const PythonArgument* const argument = call.argument(name);
        argument != nullptr && !is_none(argument->value) && bool_value(argument->value) != false)
      return true;
  return call.has_splat && std::ranges::any_of(code.all, [](const CallAt& item) {
           return item.call->last_name() == "BitsAndBytesConfig";
         });
}

// generate() before train() needs the model on a GPU already, and so does model(...) itself;
// hf_device_map is there only with a map.
bool is_used_before_training(const Project& project, const TrainingCode& code, FileId file) {
  const std::string& text = project.file(file).text();
  return text.find(".hf_device_map") != std::string::npos ||
         text.find("model.device") != std::string::npos ||
         std::ranges::any_of(code.all, [](const CallAt& item) {
           return item.call->last_name() == "generate" || item.call->callee == "pipeline" ||
                  (item.call->callee == "model" &&
                   !item.call->node.enclosing("function_definition"));
         });
}

// After prepare() the model is DDP's wrapper, which has no save_pretrained: a loop that does not
// unwrap it would end there.
bool uses_the_wrapper(const TrainingCode& code) {
  if (code.trains_with_trainer) return false;
  const auto calls = [&](std::initializer_list<std::string_view> names) {
    return std::ranges::any_of(code.all, [&](const CallAt& item) {
      return std::ranges::find(names, item.call->last_name()) != names.end();
    });
  };
  return calls({"save_pretrained", "push_to_hub", "generate"}) &&
         !calls({"unwrap_model", "extract_model_from_parallel"});
}

bool calls_adapters(const TrainingCode& code) {
  return std::ranges::any_of(code.all, [](const CallAt& item) {
    return item.call->last_name() == "get_peft_model" || item.call->last_name() == "LoraConfig" ||
           item.call->last_name() == "prepare_model_for_kbit_training";
  });
}

// Files that import the one with the load and do not train: what they load would end on the CPU.
bool is_loaded_elsewhere(const RuleInput& input, const ScriptFacts& script, FileId file) {
  if (file == script.code.script) return false;
  const std::string stem = input.project.file(file).path().stem().string();
  for (FileId other = 0; other < input.project.size(); ++other) {
    if (other == file || other == script.code.script ||
        input.project.file(other).kind() != FileKind::python ||
        input.project.file(other).text().find(stem) == std::string::npos)
      continue;
    const auto known = input.scripts.find(other);
    if (known != input.scripts.end() && known->second.code.trains()) continue;
    const PythonModule* const module = input.project.file(other).python();
    if (module == nullptr) continue;
    for (const PythonImport& import : module->imports()) {
      const std::string whole = import.module.ends_with('.') ? import.module + import.name
                                                             : import.module + "." + import.name;
      if (input.project.module(other, import.module) == file ||
          input.project.module(other, whole) == file)
        return true;
    }
  }
  return false;
}

std::string era_words(const Versions& versions) {
  const auto found = versions.find("transformers");
  if (found == versions.end() || found->second.unknown || !found->second.exact) return "";
  const Version& version = found->second.version;
  const std::string name = fmt::format("Transformers {} ({})", version.text(), found->second.from);
  if (version < *Version::parse("4.50"))
    return fmt::format(
        "; under torchrun {} ends with \"You can't train a model that has been loaded with "
        "`device_map='auto'` in any distributed mode\"",
        name);
  if (version < *Version::parse("4.54"))
    return fmt::format(
        "; under torchrun {} silently turns it into tensor parallelism, and DDP then fails on "
        "DTensor parameters",
        name);
  return fmt::format(
      "; under torchrun {} prints a line about it and then ends with \"You can't train a model "
      "that has been loaded with `device_map='auto'`\"",
      name);
}

// model.is_parallelizable = True and model.model_parallel = True, which tell Trainer that the model
// is split.
std::vector<PythonAssignment> flags_of(const PythonModule& module) {
  std::vector<PythonAssignment> flags;
  for (const PythonAssignment& item : module.assignments())
    if ((item.target.ends_with(".is_parallelizable") || item.target.ends_with(".model_parallel")) &&
        bool_value(item.value) == true &&
        !speaks_of_ranks(item.statement.enclosing("if_statement").field("condition")))
      flags.push_back(item);
  return flags;
}

// Each flag's line; the whole condition around them when nothing else stands in it.
std::vector<Edit> without_flags(const PythonModule& module,
                                const std::vector<PythonAssignment>& flags) {
  const std::string_view text = module.tree().source();
  std::vector<Edit> edits;
  for (const PythonAssignment& flag : flags) {
    const Node statement = flag.statement.parent();  // expression_statement
    const Node block = statement.parent();
    Node gone = statement;
    if (block.is("block")) {
      const auto within = block.children();
      const bool only_flags = std::ranges::all_of(within, [&](const Node& item) {
        return item.is("comment") || std::ranges::any_of(flags, [&](const PythonAssignment& other) {
                 return other.statement.parent() == item;
               });
      });
      if (only_flags) {
        const Node owner = block.parent();
        if (!owner.is("if_statement") || owner.field("alternative")) return {};
        gone = owner;
      }
    }
    const std::size_t end = text.find('\n', gone.to());
    const std::string_view before =
        text.substr(line_start(text, gone.from()), gone.from() - line_start(text, gone.from()));
    const std::string_view after = text.substr(
        gone.to(), end == std::string_view::npos ? std::string_view::npos : end - gone.to());
    // something else stands on the line
    if (!trim(before).empty() || !(trim(after).empty() || trim(after).starts_with("#"))) return {};
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
  advice(R"(or one GPU: device_map={"": 0} and CUDA_VISIBLE_DEVICES=0)",
         "the same speed as now, and the other GPUs are free for other work");
  advice(fmt::format("or FSDP, when the model does not fit one GPU{}: accelerate launch "
                     "--use_fsdp, without device_map",
                     needs.words.empty() ? "" : " (" + needs.words + ")"),
         "each GPU holds a share of the weights and all work at once; every layer is gathered over "
         "the links in each step");
  advice(
      "or, last, an explicit map with one key a layer (\"model.layers.0\": 0, \"model.layers.1\": "
      "0, ...; ranges such as \"model.layers.0-15\" are not understood)",
      "the model fits, and the GPUs still take turns");
  return ways;
}

// The edits that give one load its own GPU, or no map at all.
std::vector<Edit> settled(const std::string& text, const CallAt& load, const SplitMap& split,
                          bool keep_map) {
  const PythonArgument* const argument = load.call->argument("device_map");
  std::vector<Edit> edits;
  std::vector<TextSpan> gone;
  // a shared variable stays as it is
  const Node at = split.shared && argument != nullptr ? argument->value : split.value;
  if (keep_map)
    edits.push_back({at.from(), at.to(), own_gpu(split.value.text())});
  else if (split.direct || (split.shared && argument != nullptr))
    gone.push_back(argument->whole);
  else
    edits.push_back({at.from(), at.to(), "None"});
  if (const PythonArgument* const limits = load.call->argument("max_memory"); limits != nullptr)
    gone.push_back(limits->whole);
  for (Edit& edit : without_items(text, gone)) edits.push_back(std::move(edit));
  return edits;
}

CodeFinding finding_of(const RuleInput& input, const ScriptFacts& script, const CallAt& load,
                       const SplitMap& split) {
  const Project& project = input.project;
  const PythonModule& module = *project.file(load.file).python();
  const std::string& text = project.file(load.file).text();
  const TrainingCode& code = script.code;
  const bool quantised = is_quantised(code, *load.call);
  const bool keep_map = quantised || is_used_before_training(project, code, load.file);
  const ModelNeeds needs = model_needs(module, code, *load.call, quantised);

  CodeFinding finding;
  finding.code = FindingCode::taking_turns;
  finding.severity = Severity::critical;
  finding.reason = fmt::format(
      "device_map=\"{}\" gives each GPU some of the layers; in training one GPU works while the "
      "others wait{}",
      split.word, era_words(project.versions_for(load.file)));
  finding.where = {place_of(load.file, split.value)};
  finding.group = launch_group(code.script);

  Way way;
  Change change{load.file, settled(text, load, split, keep_map)};
  bool needs_os = keep_map;
  // Other models of the script that are split would stand in the way of several processes as much.
  for (const CallAt& other : code.loads) {
    if (other.call == load.call || other.file != load.file ||
        code.trained_loads.contains(static_cast<std::size_t>(&other - code.loads.data())))
      continue;
    const auto also = split_map(project, other);
    if (!also || also->shared) continue;
    for (Edit& edit : settled(text, other, *also, true)) change.edits.push_back(std::move(edit));
    needs_os = true;
  }
  way.description = quantised ? "load the whole model on each process's own GPU; a quantised model "
                                "cannot be moved afterwards"
                    : keep_map ? "load the whole model on each process's own GPU, where the script "
                                 "uses it before it trains"
                               : "take device_map away: the whole model goes to each process's own "
                                 "GPU when training starts";
  const bool can_read_rank = !needs_os || can_import(module, "os", load.call->node);
  if (needs_os)
    for (Edit& edit : needed_import(module, "os")) change.edits.push_back(std::move(edit));
  const auto flags = flags_of(module);
  const auto flag_edits = without_flags(module, flags);
  for (const Edit& edit : flag_edits) change.edits.push_back(edit);
  if (!needs.words.empty()) way.description += fmt::format(" ({})", needs.words);
  way.effect = "all GPUs work at once instead of in turns; published: 1.8-1.9x on 2";
  way.changes = batch_words(input, script, processes_to_be(input, script));
  if (!changes_launch_line(input, script) && !script.is_launched_distributed())
    way.changes += fmt::format(
        "; start it with torchrun from now on: where several GPUs are visible plain python {}",
        !code.trains_with_trainer ? "would leave the others idle"
        : quantised ? "would put nn.DataParallel around the model, which 4-bit ones do not bear"
                    : "would put nn.DataParallel around the model");
  way.files.push_back(std::move(change));
  const Companion companion = companion_of(input, script);
  if (companion.change) way.files.push_back(*companion.change);
  if (!companion.words.empty()) way.changes += "; " + companion.words;
  const bool inputs_on_first_gpu =
      keep_map &&
      std::ranges::any_of(
          kBareCuda, [&](std::string_view word) { return text.find(word) != std::string::npos; }) &&
      std::ranges::any_of(code.all,
                          [](const CallAt& item) { return item.call->last_name() == "generate"; });
  // Shown only: what would run out of memory (then FSDP is the way, and that is the user's to
  // choose), what other scripts load through the same lines, and what names a GPU elsewhere.
  const std::string hazard = hazard_beside_the_map(project, code);
  // One process and a whole model are nn.DataParallel or one busy GPU: the map goes together with
  // the line that starts several. (Without, 0 of 15 such patches on public repositories were
  // right.)
  const bool is_started_so = changes_launch_line(input, script) ||
                             script.is_launched_distributed() || input.wishes.launch_is_told;
  if (const std::string more = work_of_every_rank(code); !more.empty()) way.changes += "; " + more;
  // The split may be there because the model does not fit one GPU, and the code does not say how
  // large it is.
  if (needs.words.empty() && !quantised && !needs.is_named && !calls_adapters(code))
    way.description +=
        "; this needs a model that fits one GPU whole, about 16 bytes a parameter with Adam: the "
        "code does not name it, see FSDP below where it does not fit";
  if (!hazard.empty()) way.description += "; first " + hazard;
  if (!is_started_so)
    way.description +=
        "; no line here starts it: take the map away together with the line that "
        "does, which becomes torchrun";
  const bool decided =
      is_started_so && needs.fits_80_gb && hazard.empty() && !uses_the_wrapper(code) &&
      !code.pinned && companion.possible && !inputs_on_first_gpu && can_read_rank &&
      !(split.shared && load.call->argument("device_map") == nullptr) &&
      (flags.empty() || !flag_edits.empty()) && !is_loaded_elsewhere(input, script, load.file);
  way.safety = decided ? FixSafety::unsafe : FixSafety::manual;
  if (code.pinned)
    way.description += fmt::format("; {} names one GPU for all ranks, which has to change too",
                                   place_words(project, *code.pinned));
  const bool too_large = !needs.fits_80_gb;
  if (too_large) way.description = "if it fits after all: " + way.description;
  finding.ways.push_back(std::move(way));
  for (Way& other : other_ways(needs)) finding.ways.push_back(std::move(other));
  // FSDP first
  if (too_large)
    std::rotate(finding.ways.begin(), finding.ways.begin() + 2, finding.ways.begin() + 3);
  if (script.launches.empty() && !too_large) {
    Way start;
    start.kind = FixKind::command;
    start.description = "and start one process per GPU";
    start.command = {"torchrun", "--standalone",
                     input.wishes.gpus ? fmt::format("--nproc_per_node={}", *input.wishes.gpus)
                                       : "--nproc_per_node=gpu",
                     project.file(code.script).name()};
    finding.ways.insert(finding.ways.begin() + 1, std::move(start));
  }
  return finding;
}

// max_memory={0: "7GB"}: the rest may not be used.
bool is_kept_to_one_gpu(const PythonCall& load) {
  const PythonArgument* const limits = load.argument("max_memory");
  if (limits == nullptr || !limits->value.is("dictionary")) return false;
  const auto pairs = limits->value.children();
  return std::ranges::count_if(pairs, [](const Node& pair) {
           return number_value(pair.field("key")).has_value();
         }) == 1;
}

// One visible GPU cannot take turns.
bool sees_one_gpu(const RuleInput& input, const ScriptFacts& script) {
  if (script.code.sees_one_gpu || input.wishes.gpus == 1 ||
      script.code.starts_itself.starts_with("unsloth"))
    return true;
  return !script.launches.empty() &&
         std::ranges::all_of(script.launches, [&](const Launch& launch) {
           return visible_gpus(input.project, launch).count.value_or(2) <= 1;
         });
}

// A map that the script itself gives up where there are several ranks, and a line that starts one
// process: the launch line is all that is wrong.
void inspect_map_of_one_process(const RuleInput& input, const ScriptFacts& script,
                                const CallAt& load, std::vector<CodeFinding>& findings) {
  const auto plain = std::ranges::find(script.launches, Launcher::python, &Launch::launcher);
  if (plain == script.launches.end()) return;
  const auto split = split_map_alone(input.project, load, plain->arguments());
  if (!split) return;
  const std::string line =
      place_words(input.project, {plain->file, plain->line->from, plain->line->to});
  CodeFinding finding;
  finding.code = FindingCode::taking_turns;
  finding.severity = Severity::critical;
  finding.reason = fmt::format(
      "device_map=\"{}\" where WORLD_SIZE is not set, as {} starts it: each GPU gets some of the "
      "layers, and one works while the others wait",
      split->word, line);
  finding.where = {place_of(load.file, split->value)};
  Way way;
  way.kind = FixKind::advice;
  way.description = fmt::format(
      "start one process per GPU ({}: X701): the script then gives each rank its own GPU", line);
  way.effect = "all GPUs work at once instead of in turns; published: 1.8-1.9x on 2";
  finding.ways.push_back(std::move(way));
  findings.push_back(std::move(finding));
}

// {"": 0} is one GPU for one process, and the same GPU for all of many.
void inspect_own_gpu(const RuleInput& input, const ScriptFacts& script, const CallAt& load,
                     std::vector<CodeFinding>& findings) {
  const PythonArgument* const argument = load.call->argument("device_map");
  if (argument == nullptr || !argument->value.is("dictionary")) return;
  const auto pairs = argument->value.children();
  if (pairs.size() != 1 || string_value(pairs[0].field("key")) != "" ||
      !number_value(pairs[0].field("value")))
    return;
  const auto many = std::ranges::find_if(script.launches, [](const Launch& launch) {
    return launch.is_distributed() && launch.processes;
  });
  if (many == script.launches.end()) return;
  const PythonModule& module = *input.project.file(load.file).python();
  CodeFinding finding;
  finding.code = FindingCode::ranks_share_a_gpu;
  finding.severity = Severity::critical;
  finding.reason = fmt::format(
      "{} puts the model of every rank on one GPU, and {} starts {} ranks", argument->value.text(),
      place_words(input.project, {many->file, many->line->from, many->line->to}), *many->processes);
  finding.where = {place_of(load.file, argument->value)};
  Way way;
  way.safety = FixSafety::unsafe;
  way.description = "load the model on each rank's own GPU";
  way.effect = "each rank has a GPU to itself";
  way.changes = "nothing but where the work is done";
  if (!can_import(module, "os", load.call->node)) way.safety = FixSafety::manual;
  Change change{load.file, {{argument->value.from(), argument->value.to(), std::string(kOwnGpu)}}};
  for (Edit& edit : needed_import(module, "os")) change.edits.push_back(std::move(edit));
  way.files.push_back(std::move(change));
  finding.ways.push_back(std::move(way));
  findings.push_back(std::move(finding));
}

// "model.layers.0-15": accelerate looks for modules of exactly that name.
void inspect_range_keys(const RuleInput& input, FileId file, std::vector<CodeFinding>& findings) {
  static const std::regex kRange(R"(\.(\d{1,4})-(\d{1,4})$)");
  constexpr std::size_t kLongestName = 200;  // std::regex takes stack by length
  const PythonModule& module = *input.project.file(file).python();
  for (const Node& dictionary : module.tree().root().descendants("dictionary")) {
    for (const Node& pair : dictionary.children()) {
      const auto key = pair.is("pair") ? string_value(pair.field("key")) : std::nullopt;
      std::smatch found;
      if (!key || key->size() > kLongestName || !std::regex_search(*key, found, kRange) ||
          !(number_value(pair.field("value")) || string_value(pair.field("value"))))
        continue;
      CodeFinding finding;
      finding.code = FindingCode::taking_turns;
      finding.severity = Severity::warning;
      finding.reason = fmt::format(
          "a device_map has one key a module: no module is called \"{}\", and loading ends with an "
          "error; written out, the parts still take turns in training",
          *key);
      finding.where = {place_of(file, pair)};
      Way way;
      way.kind = FixKind::advice;
      way.description = fmt::format(
          "write one key a layer, from \"{}\" on; better, no map and one process per GPU",
          std::regex_replace(*key, kRange, ".$1"));
      finding.ways.push_back(std::move(way));
      findings.push_back(std::move(finding));
      break;
    }
  }
}

// The flags alone, without a map.
void inspect_flags(const RuleInput& input, const ScriptFacts& script,
                   std::vector<CodeFinding>& findings) {
  const FileId file = script.code.script;
  const PythonModule& module = *input.project.file(file).python();
  const auto flags = flags_of(module);
  // model_parallel alone does nothing: Trainer asks for both.
  const bool is_asked_for = std::ranges::any_of(flags, [](const PythonAssignment& flag) {
    return flag.target.ends_with(".is_parallelizable");
  });
  if (!is_asked_for || !script.code.trains_with_trainer || !script.code.starts_itself.empty())
    return;
  CodeFinding finding;
  finding.code = FindingCode::taking_turns;
  finding.reason = fmt::format(
      "{} tells Trainer that the model is already split, so that it neither places it nor shares "
      "the batch",
      flags.front().target);
  finding.where = {place_of(file, flags.front().statement)};
  finding.group = launch_group(file);
  Way way;
  // Applied only where the launch line changes with them: alone they bring nn.DataParallel, which
  // their author kept away.
  way.safety = changes_launch_line(input, script) ? FixSafety::unsafe : FixSafety::manual;
  way.description = "take the flags away, and start one process per GPU";
  way.effect = "Trainer uses all GPUs by itself";
  way.changes = batch_words(input, script, processes_to_be(input, script));
  way.files.push_back({file, without_flags(module, flags)});
  if (way.files.front().edits.empty()) {
    way.files.clear();
    way.safety = FixSafety::manual;
  }
  finding.ways.push_back(std::move(way));
  findings.push_back(std::move(finding));
}

}  // namespace

void device_map(const RuleInput& input, const ScriptFacts& script,
                std::vector<CodeFinding>& findings) {
  const TrainingCode& code = script.code;
  if ((code.trains_with_trainer || code.trains_with_accelerate) && !sees_one_gpu(input, script)) {
    bool any = false;
    for (const std::size_t position : code.trained_loads) {
      const CallAt& load = code.loads[position];
      if (const auto split = split_map(input.project, load);
          split && !is_kept_to_one_gpu(*load.call)) {
        findings.push_back(finding_of(input, script, load, *split));
        any = true;
      } else if (!split) {
        inspect_map_of_one_process(input, script, load, findings);
      }
      inspect_own_gpu(input, script, load, findings);
    }
    if (!any) inspect_flags(input, script, findings);
  }
  inspect_range_keys(input, code.script, findings);
}

}  // namespace lockstep
