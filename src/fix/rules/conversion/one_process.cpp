// Knows the scripts that must stay one process, from those that readers found wrongly converted
// among 43 of public code: a run on one GPU that others are compared with, Horovod, worker pools,
// models over two GPUs, loaders that are made before anybody can join a group, files that one
// function writes and another reads.
#include "fix/rules/conversion/one_process.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/text.hpp"

namespace lockstep {
namespace {

bool imports_any(const RuleInput& input, const ScriptFacts& script,
                 std::initializer_list<std::string_view> modules) {
  for (const FileId file : files_of(script))
    for (const std::string_view module : modules)
      if (module_of(input, file).imports_module(module)) return true;
  return false;
}

// "train_single.py", "baseline_1gpu.py"
bool is_named_for_one_gpu(std::string_view path) {
  std::string name(
      path.substr(path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/') + 1));
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  static constexpr std::array<std::string_view, 9> kWords = {
      "single_gpu", "single-gpu", "singlegpu", "1gpu",   "1_gpu",
      "one_gpu",    "onegpu",     "no_ddp",    "non_ddp"};
  return name.ends_with("single.py") || std::ranges::any_of(kWords, [&](std::string_view word) {
           return name.find(word) != std::string::npos;
         });
}

// A class of their own that does what nn.DataParallel does.
bool has_parallel_of_its_own(const ScriptFacts& script) {
  return std::ranges::any_of(script.code.all, [](const CallAt& item) {
    const std::string_view name = item.call->last_name();
    return name != "DataParallel" && name.find("DataParallel") != std::string_view::npos;
  });
}

// .to(x) and .cuda(): of whatever, but the batch's.
bool moves_a_model(const ScriptFacts& script) {
  for (const CallAt& item : script.code.all) {
    const std::string_view name = item.call->last_name();
    if (name == "DataParallel" || name == "set_default_tensor_type" ||
        name == "set_default_device" || item.call->argument("device_map") != nullptr)
      return true;
    if (name != "to" && name != "cuda") continue;
    const bool in_a_loop = std::ranges::any_of(script.loops, [&](const TrainingLoop& loop) {
      return loop.file == item.file && loop.body().contains(item.call->node);
    });
    if (!in_a_loop) return true;
  }
  // with torch.device("cuda"):
  return std::ranges::any_of(script.code.all, [](const CallAt& item) {
    return item.call->full_name == "torch.device" && item.call->node.enclosing("with_clause");
  });
}

// Numbers of GPUs that are named: cuda(1), to(1), torch.device(1); a name with a number for its
// value counts.
std::set<std::string> named_gpus(const ScriptFacts& script) {
  std::set<std::string> numbers;
  for (const CallAt& item : script.code.all) {
    const std::string_view name = item.call->last_name();
    const PythonArgument* const place =
        name == "cuda" || name == "to" || item.call->full_name == "torch.device"
            ? item.call->positional(0)
            : nullptr;
    if (place == nullptr) continue;
    for (const Origin& origin : script.origins->of(item.file, place->value).all)
      if (origin.expression.is("integer")) numbers.emplace(origin.expression.text());
  }
  return numbers;
}

// A model that lies on several GPUs by itself: torch.device("cuda", i), f"cuda:{i}", .cuda(i) with
// a number that is counted.
std::string lies_on_several(const RuleInput& input, const ScriptFacts& script) {
  for (const CallAt& item : script.code.all) {
    if (!item.call->node.enclosing("class_definition")) continue;
    const PythonArgument* const second =
        item.call->full_name == "torch.device" ? item.call->positional(1) : nullptr;
    const PythonArgument* const place = item.call->last_name() == "to" ||
                                                item.call->last_name() == "cuda" ||
                                                item.call->full_name == "torch.device"
                                            ? item.call->positional(0)
                                            : nullptr;
    const bool counted =
        (second != nullptr && !second->value.is("integer")) ||
        (place != nullptr && place->value.text().find("cuda:") != std::string_view::npos &&
         place->value.text().find_first_of("{%+") != std::string_view::npos);
    if (counted)
      return fmt::format("{} places parts of the model on several GPUs",
                         words_of(input, item.file, item.call->node));
  }
  return "";
}

std::string starts_processes(const RuleInput& input, const ScriptFacts& script) {
  for (const CallAt& item : script.code.all)
    if (const std::string_view name = item.call->last_name();
        name == "Pool" || name == "Process" || name == "ProcessPoolExecutor")
      if (item.call->full_name.find("multiprocessing") != std::string::npos ||
          item.call->full_name.find("concurrent") != std::string::npos)
        return fmt::format("{} starts processes of its own",
                           words_of(input, item.file, item.call->node));
  return "";
}

// Files that every rank would write: a log, a drawing server's windows.
std::string writes_beside(const RuleInput& input, const ScriptFacts& script) {
  for (const CallAt& item : script.code.all) {
    const std::string_view name = item.call->last_name();
    if (name == "FileHandler" || name == "RotatingFileHandler" || name == "Visdom" ||
        (name == "basicConfig" && item.call->argument("filename") != nullptr))
      return fmt::format("{} would be opened by every rank",
                         words_of(input, item.file, item.call->node));
    const bool with =
        item.call->node.enclosing("with_clause") || item.call->node.enclosing("with_item");
    if (!with && opens_for_writing(*item.call))
      return fmt::format("{} opens a file that every rank would write",
                         words_of(input, item.file, item.call->node));
  }
  return "";
}

std::string reads_what_it_wrote(const RuleInput& input, const ScriptFacts& script) {
  for (const CallAt& save : script.code.all) {
    const PythonArgument* const written =
        save.call->full_name == "torch.save" ? save.call->given("f", 1) : nullptr;
    if (written == nullptr) continue;
    for (const CallAt& load : script.code.all) {
      const PythonArgument* const read =
          load.call->full_name == "torch.load" ? load.call->given("f", 0) : nullptr;
      if (read == nullptr || read->value.text() != written->value.text() ||
          (load.file == save.file &&
           function_around(load.call->node) == function_around(save.call->node)))
        continue;
      return fmt::format(
          "{} reads what another function writes: the others have to wait until rank 0 has",
          words_of(input, load.file, load.call->node));
    }
  }
  return "";
}

}  // namespace

bool is_meant_for_one_process(const RuleInput& input, const ScriptFacts& script) {
  if (imports_any(input, script, {"horovod", "deepspeed", "bmtrain", "colossalai", "oneflow"}))
    return true;
  if (is_named_for_one_gpu(input.project.file(script.code.script).name()) ||
      has_parallel_of_its_own(script) || !moves_a_model(script))
    return true;
  // An optimizer of plain tensors, as of a picture: no model is trained.
  return std::ranges::all_of(script.loops, [&](const TrainingLoop& loop) {
    const Origins made =
        script.origins->of(loop.file, loop.update->node.field("function").field("object"));
    return !made.all.empty() && std::ranges::all_of(made.all, [&](const Origin& origin) {
      const PythonCall* const call = script.origins->call_at(origin.file, origin.expression);
      const PythonArgument* const what = call == nullptr ? nullptr : call->given("params", 0);
      return what != nullptr && what->value.is("list") &&
             what->value.text().find('(') == std::string_view::npos &&
             what->value.text().find('{') == std::string_view::npos &&
             what->value.text().find("param") == std::string_view::npos;
    });
  });
}

std::string breaks_as_several(const RuleInput& input, const ScriptFacts& script,
                              const SingleProcessScript& single) {
  if (std::string words = starts_processes(input, script); !words.empty()) return words;
  if (std::string words = lies_on_several(input, script); !words.empty()) return words;
  if (holds_any(text_of(input, single.file),
                {"\"C:/", "\"D:/", "'C:/", "'D:/", "\"C:\\", "\"D:\\", "'C:\\", "'D:\\"}))
    return "its paths are those of Windows, where PyTorch has no NCCL: use gloo there";
  if (named_gpus(script).size() > 1)
    return "the script names several GPUs: parts of the model may lie on each";
  const PythonModule& module = module_of(input, single.file);
  for (const PythonCall* const loader : single.loaders)
    if (single.main_part && !function_around(loader->node) &&
        !single.main_part.contains(loader->node))
      return fmt::format(
          "{} makes the DataLoader before the main part, where no group can have been joined",
          words_of(input, single.file, loader->node));
  for (const PythonAssignment& item : module.assignments())
    if (item.target == single.model && item.function == single.scope &&
        item.statement.from() > single.training.to())
      return fmt::format("{} is made anew after the training, at {}", single.model,
                         words_of(input, single.file, item.statement));
  for (const PythonCall& call : module.calls())
    if (call.callee == "isinstance" &&
        call.list.text().find("DataParallel") != std::string_view::npos)
      return fmt::format("{} asks for nn.DataParallel", words_of(input, single.file, call.node));
  if (std::string words = writes_beside(input, script); !words.empty()) return words;
  return reads_what_it_wrote(input, script);
}

}  // namespace lockstep
