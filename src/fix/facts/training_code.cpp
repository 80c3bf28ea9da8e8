#include "fix/facts/training_code.hpp"

#include <algorithm>
#include <array>

#include "fix/facts/launches.hpp"

namespace lockstep {
namespace {

struct Region {
  FileId file;
  Node node;
};

// From the whole script on: every function and class of the files it imports whose name the code so far speaks of.
std::vector<Region> reached_code(const Project& project, FileId script) {
  std::vector<Region> regions;
  const PythonModule* const start = project.file(script).python();
  if (start == nullptr) return regions;
  regions.push_back({script, start->tree().root()});
  const auto files = project.with_imports(script);
  std::set<std::string> names;
  for (std::size_t next = 0; next < regions.size(); ++next) {
    const auto more = [&] {
      std::set<std::string> found;
      for (const Node& name : regions[next].node.descendants("identifier")) found.insert(std::string(name.text()));
      return found;
    }();
    for (const std::string& name : more) {
      if (!names.insert(name).second) continue;
      for (const FileId file : files) {
        if (file == script) continue;
        const PythonModule& module = *project.file(file).python();
        for (const PythonFunction& function : module.functions())
          if (function.name == name && !function.node.enclosing("class_definition")) regions.push_back({file, function.node});
        for (const PythonClass& entry : module.classes())
          if (entry.name == name) regions.push_back({file, entry.node});
      }
    }
  }
  return regions;
}

bool is_lightning(const std::string& full_name) { return full_name.starts_with("pytorch_lightning") || full_name.starts_with("lightning") || full_name.starts_with("L."); }

bool is_trainer(const PythonModule& module, const PythonCall& call) {
  const std::string_view last = call.last_name();
  if (!module.is_class_like(call.full_name, "Trainer") || last.empty() || is_lightning(call.full_name)) return false;
  // trainer.build_Trainer() makes one; only names written as classes are meant.
  if (!(last.front() >= 'A' && last.front() <= 'Z')) return false;
  const std::string& name = call.full_name;
  const bool own_class = std::any_of(module.classes().begin(), module.classes().end(), [&](const PythonClass& entry) { return entry.name == name; });
  static constexpr std::array<std::string_view, 9> kHomes = {"transformers.", "trl.", "adapters.", "setfit.", "sentence_transformers.", "optimum.", "unsloth.", "peft.", "llamafactory."};
  const bool known_home = std::any_of(kHomes.begin(), kHomes.end(), [&](std::string_view home) { return name.starts_with(home); });
  return known_home || own_class || name.starts_with(".") || (module.imports_module("transformers") && (call.argument("args") != nullptr || call.argument("train_dataset") != nullptr));
}

// Positions in a call of a model made elsewhere.
bool loads_a_model(const PythonCall& call) {
  if (call.last_name() != "from_pretrained") return false;
  static constexpr std::array<std::string_view, 8> kOthers = {"Tokenizer", "Processor", "Config.", "FeatureExtractor", "Scheduler", "GenerationConfig", "PeftConfig", "ImageProcessor"};
  return std::none_of(kOthers.begin(), kOthers.end(), [&](std::string_view other) { return call.callee.find(other) != std::string::npos; });
}

bool is_arguments(const PythonModule& module, const PythonCall& call) {
  static constexpr std::array<std::string_view, 12> kTrl = {"SFTConfig", "DPOConfig", "GRPOConfig", "KTOConfig", "ORPOConfig", "RewardConfig", "CPOConfig", "GKDConfig", "RLOOConfig", "OnlineDPOConfig", "BCOConfig", "XPOConfig"};
  if (module.is_class_like(call.full_name, "TrainingArguments")) {
    const std::string_view last = call.last_name();
    return !last.empty() && last.front() >= 'A' && last.front() <= 'Z';
  }
  return call.full_name.starts_with("trl.") && std::find(kTrl.begin(), kTrl.end(), call.last_name()) != kTrl.end();
}

std::string self_starting(const PythonModule& module, const PythonCall& call) {
  const std::string& name = call.full_name;
  if (name == "torch.multiprocessing.spawn" || name.ends_with("mp.spawn") || name.ends_with("multiprocessing.spawn") || name.ends_with("start_processes")) return "mp.spawn";
  if (name.ends_with("notebook_launcher") || name.ends_with("debug_launcher")) return "notebook_launcher";
  if (name.ends_with("elastic_launch") || name.ends_with("launch_agent")) return "elastic_launch";
  if (is_lightning(name) && call.last_name() == "Trainer") return "Lightning, which starts its own processes";
  if (name == "ray.init" || name.ends_with("TorchTrainer") || name.ends_with("ray.remote")) return "Ray";
  if (name == "deepspeed.initialize" || name.ends_with("deepspeed.init_distributed")) return "DeepSpeed, which has its own launcher";
  if (name.ends_with("multiprocessing.Process") && module.imports_module("torch")) return "multiprocessing.Process";
  if (module.imports_module("unsloth")) return "unsloth, which trains on one GPU";
  if (name.starts_with("subprocess.") || name == "os.system" || name.starts_with("os.exec"))
    for (const Node& text : call.node.descendants("string"))
      if (text.text().find("torchrun") != std::string_view::npos || text.text().find("torch.distributed") != std::string_view::npos || text.text().find("accelerate") != std::string_view::npos)
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
    if (const auto value = string_value(item.value); value && value->starts_with("cuda:")) return true;
  return false;
}

// The names from which a value may come: over assignments, over what functions return, and over their parameters. A name
// means what its function makes of it; what the function does not assign is the module's. self.x is the file's.
class NameFlow {
 public:
  NameFlow(const Project& project, const std::vector<Region>& regions) : project_(project) {
    for (const Region& region : regions)
      if (std::find(files_.begin(), files_.end(), region.file) == files_.end()) files_.push_back(region.file);
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
        if (item.target == name.text && (index_of(item.function) == name.function || name.text.starts_with("self."))) follow(name.file, item.value);
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
      const bool own = std::any_of(module.assignments().begin(), module.assignments().end(), [&](const PythonAssignment& item) { return item.target == text && item.function == scope; });
      const bool given = std::any_of(module.functions().begin(), module.functions().end(), [&](const PythonFunction& function) {
        return function.node == scope && std::find(function.parameters.begin(), function.parameters.end(), text) != function.parameters.end();
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
          for (const Node& statement : function.node.descendants("return_statement")) follow(file, statement.child(0));
  }

  // A parameter's value comes from the calls of its function.
  void parameter(const PythonModule& module, const Name& name) {
    for (const PythonFunction& function : module.functions()) {
      const auto found = std::find(function.parameters.begin(), function.parameters.end(), name.text);
      if (found == function.parameters.end() || index_of(function.node) != name.function) continue;
      auto position = static_cast<std::size_t>(found - function.parameters.begin());
      if (function.parameters.front() == "self" && position > 0) --position;
      const Node owner = function.node.enclosing("class_definition");
      for (const FileId caller : files_)
        for (const PythonCall& call : project_.file(caller).python()->calls()) {
          if (call.last_name() != function.name && !(function.name == "__init__" && owner.field("name").text() == call.last_name())) continue;
          const PythonArgument* const argument = call.argument(name.text) != nullptr ? call.argument(name.text) : call.positional(position);
          if (argument != nullptr) follow(caller, argument->value);
        }
    }
  }

  const Project& project_;
  std::vector<FileId> files_;
  std::set<Name> seen_;
  std::vector<Name> open_;
  std::set<std::pair<FileId, std::uint32_t>> calls_;
  std::set<std::string> followed_functions_;
};

void read_call(TrainingCode& code, FileId file, const PythonModule& module, const PythonCall& call) {
  const CallAt here{file, &call};
  const std::string_view last = call.last_name();
  code.all.push_back(here);
  if (is_arguments(module, call)) code.arguments.push_back(here);
  else if (is_trainer(module, call)) code.trainers.push_back(here);
  if (loads_a_model(call)) code.loads.push_back(here);
  if (call.full_name.ends_with("accelerate.Accelerator") || call.full_name == "accelerate.Accelerator") code.accelerators.push_back(here);
  if (last == "DistributedDataParallel" || call.full_name.ends_with(".DistributedDataParallel")) code.wraps.push_back(here);
  if (last == "init_process_group") code.joins.push_back(here);
  if (last == "backward") code.has_backward = true;
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
    if (names.contains(owner) || owner.find("trainer") != std::string::npos || owner == "?") return true;
  }
  return false;
}

void read_environment(TrainingCode& code, FileId file, const PythonModule& module, const Region& region) {
  for (const std::string& name : environment_read_in(region.node)) code.environment.insert(name);
  for (const PythonAssignment& item : module.assignments()) {
    if (item.target != "os.environ[\"CUDA_VISIBLE_DEVICES\"]" || !region.node.contains(item.statement)) continue;
    code.visible_devices = string_value(item.value).value_or("?");
    if (code.visible_devices == "?" || device_count(*code.visible_devices).value_or(1) <= 1) code.pinned = place_of(file, item.statement);
  }
}

}  // namespace

TrainingCode training_code(const Project& project, FileId script) {
  TrainingCode code;
  code.script = script;
  const auto regions = reached_code(project, script);
  for (const Region& region : regions) {
    const PythonModule& module = *project.file(region.file).python();
    for (const PythonCall& call : module.calls())
      if (region.node.contains(call.node)) read_call(code, region.file, module, call);
    read_environment(code, region.file, module, region);
  }
  code.trains_with_trainer = !code.trainers.empty() && calls_train(code, project);
  code.trains_with_accelerate = !code.accelerators.empty() && code.has_backward;
  code.trains_with_ddp = !code.wraps.empty() && !code.joins.empty() && code.has_backward;

  // Which of the loaded models ends in a Trainer, in prepare() or in an optimizer.
  NameFlow flow(project, regions);
  for (const CallAt& trainer : code.trainers) {
    const PythonArgument* const model = trainer.call->argument("model") != nullptr ? trainer.call->argument("model") : trainer.call->positional(0);
    if (model != nullptr) flow.start_at(trainer.file, model->value);
  }
  for (const CallAt& item : code.all) {
    const bool prepares = item.call->last_name() == "prepare" && !code.accelerators.empty();
    if (!prepares) continue;
    for (const PythonArgument& argument : item.call->arguments) flow.start_at(item.file, argument.value);
  }
  flow.run();
  for (std::size_t i = 0; i < code.loads.size(); ++i)
    if (flow.reaches(code.loads[i].file, code.loads[i].call->node)) code.trained_loads.insert(i);
  return code;
}

bool looks_like_a_script(const SourceFile& file) {
  const PythonModule* const module = file.python();
  if (module == nullptr) return false;
  if (file.text().find("__main__") != std::string::npos) return true;
  return std::any_of(module->calls().begin(), module->calls().end(), [](const PythonCall& call) {
    return (call.last_name() == "train" || call.last_name() == "backward") && !call.node.enclosing("function_definition");
  });
}

}  // namespace lockstep
