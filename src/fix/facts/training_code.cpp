#include "fix/facts/training_code.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "fix/facts/launch_path.hpp"
#include "fix/facts/launches.hpp"
#include "fix/python/statements.hpp"

namespace lockstep {
namespace {

struct Region {
  FileId file;
  Node node;
};

// From the whole script on: every function and class of the files it imports whose name the code so
// far speaks of.
std::vector<Region> reached_code(const Project& project, FileId script) {
  std::vector<Region> regions;
  const PythonModule* const start = project.file(script).python();
  if (start == nullptr) return regions;
  regions.push_back({script, start->tree().root()});
  // What each name may mean in the files that the script imports.
  std::multimap<std::string, Region> meanings;
  for (const FileId file : project.with_imports(script)) {
    const PythonModule* const module = file == script ? nullptr : project.file(file).python();
    if (module == nullptr) continue;
    for (const PythonFunction& function : module->functions())
      if (!function.node.enclosing("class_definition"))
        meanings.emplace(function.name, Region{file, function.node});
    for (const PythonClass& entry : module->classes())
      meanings.emplace(entry.name, Region{file, entry.node});
  }
  std::set<std::string, std::less<>> names;
  for (std::size_t next = 0; next < regions.size(); ++next) {
    const Node region = regions[next].node;
    for (const Node& identifier : region.descendants("identifier")) {
      if (names.contains(identifier.text())) continue;
      const std::string name(identifier.text());
      names.insert(name);
      const auto [first, last] = meanings.equal_range(name);
      for (auto meaning = first; meaning != last; ++meaning) regions.push_back(meaning->second);
    }
  }
  return regions;
}

bool is_lightning(const std::string& full_name) {
  return full_name.starts_with("pytorch_lightning") || full_name.starts_with("lightning") ||
         full_name.starts_with("L.");
}

// Whether a class comes from one of a library's own, over the project's classes and files.
class ClassRoots {
 public:
  ClassRoots(const Project& project, std::string_view ending)
      : project_(project), ending_(ending) {}

  bool lead(FileId file, const std::string& full_name, int depth = 0) const {
    static constexpr std::array<std::string_view, 8> kHomes = {
        "transformers.",          "trl.",     "adapters.", "setfit.",
        "sentence_transformers.", "unsloth.", "peft.",     "llamafactory."};
    constexpr int kDeepest = 8;
    if (full_name.ends_with(ending_) && std::ranges::any_of(kHomes, [&](std::string_view home) {
          return full_name.starts_with(home);
        }))
      return true;
    const PythonModule* const module = project_.file(file).python();
    if (module == nullptr || depth > kDeepest) return false;
    const auto dot = full_name.rfind('.');
    if (dot == std::string::npos) {
      for (const PythonClass& entry : module->classes())
        if (entry.name == full_name)
          return std::ranges::any_of(
              entry.bases, [&](const std::string& base) { return lead(file, base, depth + 1); });
      if (const std::string followed = module->followed(full_name); followed != full_name)
        return lead(file, followed, depth + 1);
      return full_name.ends_with(ending_) &&
             std::ranges::any_of(module->imports(), [](const PythonImport& import) {
               return import.name == "*" &&
                      (import.module == "transformers" || import.module == "trl");
             });
    }
    const auto elsewhere = project_.module(file, full_name.starts_with(".") && dot == 0
                                                     ? "."
                                                     : std::string_view(full_name).substr(0, dot));
    return elsewhere && lead(*elsewhere, full_name.substr(dot + 1), depth + 1);
  }

 private:
  const Project& project_;
  std::string_view ending_;
};

bool is_class_name(std::string_view last) {
  return !last.empty() && last.front() >= 'A' && last.front() <= 'Z';
}

bool is_trainer(const Project& project, FileId file, const PythonCall& call) {
  return is_class_name(call.last_name()) &&
         ClassRoots(project, "Trainer").lead(file, call.full_name);
}

// Positions in a call of a model made elsewhere.
bool loads_a_model(const PythonCall& call) {
  // SentenceTransformer(name, model_kwargs={"device_map": "auto"})
  if (call.full_name.starts_with("sentence_transformers.") && is_class_name(call.last_name()) &&
      call.argument("model_kwargs") != nullptr)
    return true;
  if (call.last_name() != "from_pretrained") return false;
  static constexpr std::array<std::string_view, 8> kOthers = {
      "Tokenizer", "Processor",        "Config.",    "FeatureExtractor",
      "Scheduler", "GenerationConfig", "PeftConfig", "ImageProcessor"};
  return std::ranges::none_of(kOthers, [&](std::string_view other) {
    return call.callee.find(other) != std::string::npos;
  });
}

bool is_arguments(const Project& project, FileId file, const PythonCall& call) {
  static constexpr std::array<std::string_view, 12> kTrl = {
      "SFTConfig", "DPOConfig", "GRPOConfig", "KTOConfig",       "ORPOConfig", "RewardConfig",
      "CPOConfig", "GKDConfig", "RLOOConfig", "OnlineDPOConfig", "BCOConfig",  "XPOConfig"};
  if (!is_class_name(call.last_name())) return false;
  if (call.full_name.starts_with("trl.") && std::ranges::find(kTrl, call.last_name()) != kTrl.end())
    return true;
  return ClassRoots(project, "TrainingArguments").lead(file, call.full_name);
}

std::string self_starting(const PythonModule& module, const PythonCall& call) {
  const std::string& name = call.full_name;
  if (name == "torch.multiprocessing.spawn" || name.ends_with("mp.spawn") ||
      name.ends_with("multiprocessing.spawn") || name.ends_with("start_processes"))
    return "mp.spawn";
  if (name.ends_with("notebook_launcher") || name.ends_with("debug_launcher"))
    return "notebook_launcher";
  if (name.ends_with("elastic_launch") || name.ends_with("launch_agent")) return "elastic_launch";
  if (is_lightning(name) && call.last_name() == "Trainer")
    return "Lightning, which starts its own processes";
  if (name == "ray.init" || name.ends_with("TorchTrainer") || name.ends_with("ray.remote"))
    return "Ray";
  if (name == "deepspeed.initialize" || name.ends_with("deepspeed.init_distributed"))
    return "DeepSpeed, which has its own launcher";
  if (name.ends_with("multiprocessing.Process") && module.imports_module("torch"))
    return "multiprocessing.Process";
  if (module.imports_module("unsloth")) return "unsloth, which trains on one GPU";
  if (name.starts_with("subprocess.") || name == "os.system" || name.starts_with("os.exec"))
    for (const Node& text : call.node.descendants("string"))
      if (text.text().find("torchrun") != std::string_view::npos ||
          text.text().find("torch.distributed") != std::string_view::npos ||
          text.text().find("accelerate") != std::string_view::npos)
        return "a launcher that it runs itself";
  return "";
}

// cuda:0 and .cuda(0), which every rank would use.
bool names_one_gpu(const PythonCall& call) {
  const std::string_view last = call.last_name();
  if (last == "cuda" || last == "set_device") {
    const PythonArgument* const first = call.positional(0);
    return first != nullptr && number_value(first->value).has_value();
  }
  if (last != "to" && last != "device") return false;
  for (const PythonArgument& item : call.arguments)
    if (const auto value = string_value(item.value); value && value->starts_with("cuda:"))
      return true;
  return false;
}

// The names from which a value may come: over assignments, over what functions return, and over
// their parameters. A name means what its function makes of it; what the function does not assign
// is the module's. self.x is the file's.
class NameFlow {
 public:
  NameFlow(const Project& project, const std::vector<Region>& regions) : project_(project) {
    for (const Region& region : regions)
      if (std::ranges::find(files_, region.file) == files_.end()) files_.push_back(region.file);
  }

  void start_at(FileId file, Node expression) { follow(file, expression); }

  // Whether the value of this call can reach where we started.
  bool reaches(FileId file, Node call) const { return calls_.contains({file, call.index()}); }

  void run() {
    while (!open_.empty()) {
      const Name name = open_.back();
      open_.pop_back();
      const PythonModule& module = *project_.file(name.file).python();
      for (const PythonAssignment& item : module.assignments())
        if (item.target == name.text &&
            (index_of(item.function) == name.function || name.text.starts_with("self.")))
          follow(name.file, item.value);
      parameter(module, name);
    }
  }

 private:
  struct Name {
    FileId file;
    std::uint32_t function;  // the node's index; 0: the module
    std::string text;
    auto operator<=>(const Name&) const = default;
  };

  static std::uint32_t index_of(Node function) { return function ? function.index() : 0; }

  void follow(FileId file, Node expression) {
    if (!expression) return;
    for (const Node& call : expression.descendants("call")) {
      calls_.insert({file, call.index()});
      returns_of(call.field("function").text());
    }
    for (const std::string& name : names_in(expression)) add(file, expression, name);
  }

  void add(FileId file, Node from, const std::string& text) {
    const PythonModule& module = *project_.file(file).python();
    Node scope = from.enclosing("function_definition");
    for (; scope; scope = scope.enclosing("function_definition")) {
      const bool own = std::ranges::any_of(module.assignments(), [&](const PythonAssignment& item) {
        return item.target == text && item.function == scope;
      });
      const bool given =
          std::ranges::any_of(module.functions(), [&](const PythonFunction& function) {
            return function.node == scope &&
                   std::ranges::find(function.parameters, text) != function.parameters.end();
          });
      if (own || given) break;
    }
    const Name name{file, index_of(scope), text};
    if (seen_.insert(name).second) open_.push_back(name);
  }

  void returns_of(std::string_view called) {
    const auto dot = called.rfind('.');
    const std::string name(called.substr(dot == std::string_view::npos ? 0 : dot + 1));
    if (!followed_functions_.insert(name).second) return;
    for (const FileId file : files_)
      for (const PythonFunction& function : project_.file(file).python()->functions())
        if (function.name == name)
          for (const Node& statement : function.node.descendants("return_statement"))
            follow(file, statement.child(0));
  }

  // A parameter's value comes from the calls of its function.
  void parameter(const PythonModule& module, const Name& name) {
    for (const PythonFunction& function : module.functions()) {
      const auto found = std::ranges::find(function.parameters, name.text);
      if (found == function.parameters.end() || index_of(function.node) != name.function) continue;
      auto position = static_cast<std::size_t>(found - function.parameters.begin());
      if (function.parameters.front() == "self" && position > 0) --position;
      const Node owner = function.node.enclosing("class_definition");
      const std::string called =
          function.name == "__init__" ? std::string(owner.field("name").text()) : function.name;
      index_calls();
      const auto [first, last] = calls_by_name_.equal_range(called);
      for (auto call = first; call != last; ++call) {
        const PythonArgument* const argument = call->second.call->given(name.text, position);
        if (argument != nullptr) follow(call->second.file, argument->value);
      }
    }
  }

  void index_calls() {
    if (indexed_) return;
    indexed_ = true;
    for (const FileId file : files_)
      for (const PythonCall& call : project_.file(file).python()->calls())
        calls_by_name_.emplace(call.last_name(), CallAt{file, &call});
  }

  const Project& project_;
  std::vector<FileId> files_;
  bool indexed_ = false;
  std::multimap<std::string, CallAt, std::less<>> calls_by_name_;
  std::set<Name> seen_;
  std::vector<Name> open_;
  std::set<std::pair<FileId, std::uint32_t>> calls_;
  std::set<std::string> followed_functions_;
};

void read_call(TrainingCode& code, const Project& project, FileId file, const PythonModule& module,
               const PythonCall& call) {
  const CallAt here{file, &call};
  const std::string_view last = call.last_name();
  code.all.push_back(here);
  if (is_arguments(project, file, call))
    code.arguments.push_back(here);
  else if (is_trainer(project, file, call))
    code.trainers.push_back(here);
  if (loads_a_model(call)) code.loads.push_back(here);
  if (call.full_name.ends_with("accelerate.Accelerator")) code.accelerators.push_back(here);
  if (last == "DistributedDataParallel" || call.full_name.ends_with(".DistributedDataParallel"))
    code.wraps.push_back(here);
  if (last == "init_process_group") code.joins.push_back(here);
  if (last == "backward") code.backward_in.insert(file);
  if (last == "HfArgumentParser" || last == "TrlParser") code.parses_arguments = true;
  if (code.starts_itself.empty()) code.starts_itself = self_starting(module, call);
  if (!code.pinned && names_one_gpu(call)) code.pinned = place_of(file, call.node);
}

// trainer.train(), not model.train(), which only switches a mode.
bool calls_train(const TrainingCode& code, const Project& project) {
  std::set<std::string> names;
  for (const CallAt& trainer : code.trainers)
    for (const PythonAssignment& item : project.file(trainer.file).python()->assignments())
      if (item.value == trainer.call->node) names.insert(item.target);
  for (const CallAt& item : code.all) {
    if (item.call->last_name() != "train") continue;
    const std::string owner = item.call->callee.substr(0, item.call->callee.rfind('.'));
    if (names.contains(owner) || owner.find("trainer") != std::string::npos || owner == "?")
      return true;
  }
  return false;
}

void read_environment(TrainingCode& code, FileId file, const PythonModule& module,
                      const Region& region) {
  for (const std::string& name : environment_read_in(region.node)) code.environment.insert(name);
  for (const PythonAssignment& item : module.assignments()) {
    if (item.target != "os.environ[\"CUDA_VISIBLE_DEVICES\"]" ||
        !region.node.contains(item.statement))
      continue;
    code.visible_devices = string_value(item.value).value_or("?");
    if (code.visible_devices == "?" || device_count(*code.visible_devices).value_or(1) <= 1) {
      code.pinned = place_of(file, item.statement);
      code.sees_one_gpu = code.visible_devices != "?";
    }
  }
}

}  // namespace

namespace {

// `trainer.train()` and then a load in the same function: the adapters are merged, or a test
// begins.
bool stands_behind_the_training(const TrainingCode& code, const CallAt& load) {
  return std::ranges::any_of(code.all, [&](const CallAt& item) {
    const PythonCall& call = *item.call;
    return item.file == load.file && call.last_name() == "train" &&
           lower_case(call.callee).find("trainer.") != std::string::npos &&
           call.node.to() < load.call->node.from() &&
           function_around(call.node) == function_around(load.call->node) &&
           !loop_around(call.node);
  });
}

}  // namespace

TrainingCode training_code(const Project& project, FileId script) {
  TrainingCode code;
  code.script = script;
  const auto regions = reached_code(project, script);
  for (const Region& region : regions) {
    const PythonModule& module = *project.file(region.file).python();
    for (const PythonCall& call : module.calls())
      if (region.node.contains(call.node)) read_call(code, project, region.file, module, call);
    read_environment(code, region.file, module, region);
  }
  code.trains_with_trainer = !code.trainers.empty() && calls_train(code, project);
  // prepare() alone is not training: evaluation uses it too. The step stands where the Accelerator
  // is made, or in the script.
  code.trains_with_accelerate = std::ranges::any_of(code.accelerators, [&](const CallAt& item) {
    return code.backward_in.contains(item.file) || code.backward_in.contains(script);
  });
  code.trains_with_ddp = !code.wraps.empty() && !code.joins.empty() && !code.backward_in.empty();

  // Which of the loaded models ends in a Trainer or in prepare().
  if (code.loads.empty()) return code;
  NameFlow flow(project, regions);
  for (const CallAt& trainer : code.trainers) {
    const PythonArgument* const model = trainer.call->given("model", 0);
    if (model != nullptr) flow.start_at(trainer.file, model->value);
  }
  for (const CallAt& item : code.all) {
    const bool prepares = item.call->last_name() == "prepare" && !code.accelerators.empty();
    if (!prepares) continue;
    for (const PythonArgument& argument : item.call->arguments)
      flow.start_at(item.file, argument.value);
  }
  flow.run();
  for (std::size_t i = 0; i < code.loads.size(); ++i)
    if (flow.reaches(code.loads[i].file, code.loads[i].call->node) &&
        !stands_behind_the_training(code, code.loads[i]))
      code.trained_loads.insert(i);
  return code;
}

bool speaks_of_ranks(Node expression) {
  const std::string_view text = expression.text();
  for (const char* word : {"LOCAL_RANK", "local_rank", "process_index", "current_device", "ddp",
                           "world_size", "WORLD_SIZE", "get_rank", "kbit_device_map", "rank"})
    if (text.find(word) != std::string_view::npos) return true;
  return false;
}

namespace {

bool is_split_word(const std::optional<std::string>& word) {
  static constexpr std::array<std::string_view, 4> kSplits = {"auto", "balanced", "balanced_low_0",
                                                              "sequential"};
  return word && std::ranges::find(kSplits, *word) != kSplits.end();
}

// How often a name is read in a module.
std::size_t reads_of(const PythonModule& module, std::string_view name) {
  std::size_t reads = 0;
  for (const Node& identifier : module.tree().root().descendants("identifier")) {
    const Node parent = identifier.parent();
    const bool target = parent.is("assignment") && parent.field("left") == identifier;
    const bool label = (parent.is("keyword_argument") && parent.field("name") == identifier) ||
                       (parent.is("attribute") && parent.field("attribute") == identifier);
    if (identifier.text() == name && !target && !label) ++reads;
  }
  return reads;
}

// The device_map within {...} or dict(...).
Node map_in_dict(const PythonModule& module, Node made) {
  for (const PythonCall& other : module.calls())
    if (other.node == made && other.callee == "dict" && other.argument("device_map") != nullptr)
      return other.argument("device_map")->value;
  if (made.is("dictionary"))
    for (const Node& pair : made.children())
      if (pair.is("pair") && string_value(pair.field("key")) == "device_map")
        return pair.field("value");
  return {};
}

// The device_map within a dict that is passed with ** or as model_kwargs=, and the dict's name
// where it has one.
std::pair<Node, std::string> map_in_splat(const PythonModule& module, const PythonCall& call) {
  if (const PythonArgument* const given = call.argument("model_kwargs"); given != nullptr) {
    const std::string name = given->value.is("identifier") ? std::string(given->value.text()) : "";
    return {map_in_dict(module, name.empty() ? given->value : module.only_value_of(name)), name};
  }
  for (const Node& splat : call.list.children()) {
    if (!splat.is("dictionary_splat") || !splat.child(0).is("identifier")) continue;
    const std::string name(splat.child(0).text());
    if (const Node value = map_in_dict(module, module.only_value_of(name))) return {value, name};
  }
  return {};
}

}  // namespace

std::optional<SplitMap> split_map(const Project& project, const CallAt& load) {
  const PythonModule& module = *project.file(load.file).python();
  SplitMap split;
  const PythonArgument* const argument = load.call->argument("device_map");
  if (argument != nullptr && string_value(argument->value)) {
    split.value = argument->value;
    split.direct = true;
  } else if (argument != nullptr && argument->value.is("identifier")) {
    const std::string_view name = argument->value.text();
    const auto assigned = module.assigned(name);
    // it may be another one by rank
    if (assigned.size() != 1 || !module.only_value_of(name)) return std::nullopt;
    if (const Node around = assigned.front()->statement.enclosing("if_statement");
        around && speaks_of_ranks(around.field("condition")))
      return std::nullopt;
    split.value = assigned.front()->value;
    split.shared = reads_of(module, name) > 1;
  } else if (argument == nullptr) {
    const auto [value, name] = map_in_splat(module, *load.call);
    split.value = value;
    split.shared = value && !name.empty() && reads_of(module, name) > 1;
  }
  const auto word = string_value(split.value);
  if (!is_split_word(word)) return std::nullopt;
  split.word = *word;
  return split;
}

std::optional<SplitMap> split_map_alone(const Project& project, const CallAt& load,
                                        const std::vector<std::string>& arguments) {
  if (auto always = split_map(project, load)) return always;
  const PythonModule& module = *project.file(load.file).python();
  const PythonArgument* const argument = load.call->argument("device_map");
  if (argument == nullptr) return std::nullopt;
  const PathEvaluation alone(module, {.ranks = {}, .gpus = {}, .arguments = arguments});
  const auto word = word_of(alone.value(argument->value));
  if (!is_split_word(word)) return std::nullopt;
  SplitMap split{argument->value, *word, false, true};
  for (const PythonAssignment* const item : module.assigned(argument->value.text()))
    if (string_value(item->value) == word) split.value = item->value;
  return split;
}

bool has_unsettled_map(const Project& project, const CallAt& load) {
  const PythonModule& module = *project.file(load.file).python();
  const PythonArgument* const argument = load.call->argument("device_map");
  Node value = argument != nullptr ? argument->value : map_in_splat(module, *load.call).first;
  // kwargs that are made in several places, by a condition or key by key: one word of a map is
  // enough to wonder.
  if (!value)
    for (const Node& splat : load.call->list.children()) {
      if (!splat.is("dictionary_splat")) continue;
      if (!splat.child(0).is("identifier"))
        return splat.text().find("device_map") != std::string_view::npos;
      const std::string name(splat.child(0).text());
      for (const PythonAssignment& item : module.assignments())
        if (item.target.starts_with(name) &&
            item.statement.text().find("device_map") != std::string_view::npos)
          return true;
    }
  // {"": LOCAL_RANK} if quantised else "auto": one of the two is no map by rank.
  if (value && value.is("conditional_expression")) {
    const auto words = value.descendants("string");
    if (std::ranges::any_of(words,
                            [](const Node& word) { return is_split_word(string_value(word)); }))
      return true;
  }
  if (!value || is_none(value) || speaks_of_ranks(value) || split_map(project, load)) return false;
  if (!value.is("identifier")) return true;
  // alpaca-lora's way: a variable that is set again where there are ranks.
  const auto assigned = module.assigned(value.text());
  return std::ranges::none_of(assigned, [](const PythonAssignment* item) {
    // `if use_qlora:` does not make a map launch-aware
    const Node around = item->statement.enclosing("if_statement");
    return around ? speaks_of_ranks(around.field("condition")) : speaks_of_ranks(item->value);
  });
}

bool looks_like_a_script(const SourceFile& file) {
  const PythonModule* const module = file.python();
  if (module == nullptr) return false;
  if (file.text().find("__main__") != std::string::npos) return true;
  return std::ranges::any_of(module->calls(), [&](const PythonCall& call) {
    if (call.node.enclosing("function_definition")) return false;
    if (call.last_name() == "train" || call.last_name() == "backward") return true;
    // run_epoch(): a function of its own that trains
    return std::ranges::any_of(module->functions(), [&](const PythonFunction& function) {
      return function.name == call.callee &&
             function.node.text().find(".backward(") != std::string_view::npos;
    });
  });
}

}  // namespace lockstep
