#include "fix/rules/launching/rank_hazards.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace lockstep {
namespace {

std::set<FileId> files_of(const TrainingCode& code) {
  std::set<FileId> files = {code.script};
  for (const CallAt& item : code.all) files.insert(item.file);
  return files;
}

std::string spread_model(const Project& project, const TrainingCode& code) {
  for (std::size_t i = 0; i < code.loads.size(); ++i) {
    const bool handled =
        code.trained_loads.contains(i) && (code.trains_with_trainer || code.trains_with_accelerate);
    const auto split = split_map(project, code.loads[i]);
    const bool beside_handled =
        split && !split->shared && std::ranges::any_of(code.trained_loads, [&](std::size_t other) {
          return code.loads[other].file == code.loads[i].file &&
                 split_map(project, code.loads[other]);
        });
    if (has_unsettled_map(project, code.loads[i]) || (split && !handled && !beside_handled))
      return fmt::format(
          "{} gives its model a device_map that is not by rank",
          place_words(project, place_of(code.loads[i].file, code.loads[i].call->node)));
  }
  for (const CallAt& call : code.all)
    if (const std::string_view name = call.call->last_name();
        name == "dispatch_model" || name == "parallelize" || name == "infer_auto_device_map" ||
        name == "DataParallel")
      return fmt::format("{} spreads the model over the GPUs by {}",
                         place_words(project, place_of(call.file, call.call->node)), name);
  return "";
}

// DDP syncs gradients of passes that go through its own forward: self.model in compute_loss is the
// bare model.
std::string bare_model(const Project& project, const TrainingCode& code) {
  for (const CallAt& item : code.all) {
    if (item.call->callee != "self.model") continue;
    const Node function = item.call->node.enclosing("function_definition");
    if (const std::string_view name = function.field("name").text();
        (name == "compute_loss" || name == "training_step") &&
        function.enclosing("class_definition"))
      return fmt::format("{} calls self.model, the bare model: DDP would never sync its gradients",
                         place_words(project, place_of(item.file, item.call->node)));
  }
  return "";
}

// Metrics that only the main rank has: the others cannot choose the best checkpoint by them
// (huggingface/transformers 30819).
std::string metrics_of_one_rank(const Project& project, const TrainingCode& code) {
  for (const FileId file : files_of(code))
    for (const PythonFunction& function : project.file(file).python()->functions()) {
      if (function.name != "evaluate" || !function.node.enclosing("class_definition")) continue;
      const std::string_view text = function.node.text();
      if (text.find("should_save") != std::string_view::npos ||
          text.find("process_zero") != std::string_view::npos)
        return fmt::format("{} makes metrics on the main rank only",
                           place_words(project, place_of(file, function.node.field("name"))));
    }
  return "";
}

// device = "cuda:0" if ... and the like: every rank would put its tensors on one GPU.
std::string named_gpu(const Project& project, const TrainingCode& code) {
  for (const FileId file : files_of(code))
    for (const Node& text : project.file(file).python()->tree().root().descendants("string"))
      if (const auto value = string_value(text);
          value && value->starts_with("cuda:") && value->size() > 5 &&
          value->find_first_not_of("0123456789", 5) == std::string::npos)
        return fmt::format("{} names {} for every rank", place_words(project, place_of(file, text)),
                           *value);
  return "";
}

// A file of one name that is written and read back: N ranks would write it at the same moment.
std::string shared_file(const Project& project, const TrainingCode& code) {
  for (const CallAt& item : code.all) {
    if (item.call->callee != "open" || item.file != code.script) continue;
    const PythonArgument* const path = item.call->positional(0);
    const PythonArgument* const mode = item.call->given("mode", 1);
    const auto name = path != nullptr ? string_value(path->value) : std::nullopt;
    if (!name || mode == nullptr ||
        string_value(mode->value).value_or("").find('w') == std::string::npos)
      continue;
    const auto same = [&](const Node& other) {
      return other != path->value && string_value(other) == name;
    };
    const auto strings = project.file(item.file).python()->tree().root().descendants("string");
    if (std::ranges::any_of(strings, same))
      return fmt::format("{} writes {} on every rank and reads it back",
                         place_words(project, place_of(item.file, item.call->node)), *name);
  }
  return "";
}

// "cuda" is GPU 0 on every rank until something sets the rank's own: N copies of a model on one
// GPU.
std::string bare_cuda(const Project& project, const TrainingCode& code) {
  const bool chosen = std::ranges::any_of(code.all, [](const CallAt& item) {
    return item.call->full_name == "torch.cuda.set_device" && item.call->positional(0) != nullptr &&
           !number_value(item.call->positional(0)->value);
  });
  if (chosen) return "";
  for (const CallAt& item : code.all) {
    const std::string_view name = item.call->last_name();
    const PythonArgument* const first = item.call->positional(0);
    const bool moves = (name == "cuda" && item.call->arguments.empty() &&
                        item.call->callee.find('.') != std::string::npos &&
                        !item.call->callee.starts_with("torch.")) ||
                       (name == "to" && first != nullptr && string_value(first->value) == "cuda");
    if (moves && !item.call->node.enclosing("class_definition"))
      return fmt::format("{} moves to \"cuda\", GPU 0 on every rank, before the rank has its own",
                         place_words(project, place_of(item.file, item.call->node)));
  }
  return "";
}

// FSDP and DeepSpeed by a plugin in the code: plain python leaves them asleep, several processes
// wake them.
std::string sleeping_plugin(const Project& project, const TrainingCode& code) {
  for (const CallAt& item : code.all)
    if (const std::string_view name = item.call->last_name();
        name == "FullyShardedDataParallelPlugin" || name == "DeepSpeedPlugin" ||
        name == "MegatronLMPlugin")
      return fmt::format("{} makes a {} that only several processes switch on",
                         place_words(project, place_of(item.file, item.call->node)), name);
  return "";
}

// A streamed dataset is dealt out batch by batch from rank 0 since Accelerate does it, and batches
// of different lengths end the run.
std::string streamed_data(const Project& project, const TrainingCode& code) {
  for (const CallAt& item : code.all) {
    const PythonArgument* const streaming = item.call->argument("streaming");
    if ((streaming != nullptr && bool_value(streaming->value) != false) ||
        item.call->last_name() == "to_iterable_dataset")
      return fmt::format("{} streams its data: see that ranks share it out",
                         place_words(project, place_of(item.file, item.call->node)));
  }
  return "";
}

// A DeepSpeed file with the whole batch in it holds for one number of processes.
std::string fixed_deepspeed_batch(const Project& project, const TrainingCode& code) {
  for (const CallAt& item : code.arguments) {
    const PythonArgument* const config = item.call->argument("deepspeed");
    const auto name = config != nullptr ? string_value(config->value) : std::nullopt;
    if (!name) continue;
    if (const auto file = project.script(item.file, std::nullopt, *name)) {
      const std::string& text = project.file(*file).text();
      const auto at = text.find("\"train_batch_size\"");
      if (at != std::string::npos && text.substr(at, 40).find("auto") == std::string::npos)
        return fmt::format("{} fixes train_batch_size for one number of processes", *name);
    }
  }
  return "";
}

// What one rank removes another may be about to read.
std::string removed_file(const Project& project, const TrainingCode& code) {
  for (const CallAt& item : code.all) {
    const std::string& name = item.call->full_name;
    if (name != "os.remove" && name != "os.unlink" && name != "shutil.rmtree" &&
        name != "os.rmdir" && name != "shutil.move")
      continue;
    if (const Node condition = item.call->node.enclosing("if_statement").field("condition");
        condition && (speaks_of_ranks(condition) ||
                      condition.text().find("process_zero") != std::string_view::npos ||
                      condition.text().find("main_process") != std::string_view::npos))
      continue;
    return fmt::format("{} removes files on every rank",
                       place_words(project, place_of(item.file, item.call->node)));
  }
  return "";
}

std::string files_that_ranks_share(const Project& project, const TrainingCode& code) {
  const std::string written = shared_file(project, code);
  return written.empty() ? removed_file(project, code) : written;
}

}  // namespace

std::string hazard_of_many_ranks(const Project& project, const TrainingCode& code) {
  for (const auto look :
       {spread_model, bare_model, metrics_of_one_rank, named_gpu, bare_cuda, sleeping_plugin,
        streamed_data, fixed_deepspeed_batch, files_that_ranks_share})
    if (std::string words = look(project, code); !words.empty()) return words;
  return "";
}

std::string hazard_beside_the_map(const Project& project, const TrainingCode& code) {
  for (const auto look : {bare_model, metrics_of_one_rank, sleeping_plugin, streamed_data,
                          fixed_deepspeed_batch, files_that_ranks_share})
    if (std::string words = look(project, code); !words.empty()) return words;
  return "";
}

// if args.push: if accelerator.is_main_process: ...
bool is_guarded(Node call) {
  for (Node outer = call.enclosing("if_statement"); outer; outer = outer.enclosing("if_statement"))
    if (speaks_of_ranks(outer.field("condition")) ||
        outer.field("condition").text().find("is_main") != std::string_view::npos)
      return true;
  return false;
}

std::string work_of_every_rank(const TrainingCode& code) {
  for (const char* name : {"push_to_hub", "merge_and_unload", "save_pretrained"})
    if (std::ranges::any_of(code.all, [&](const CallAt& item) {
          return item.call->last_name() == name &&
                 item.call->callee != "trainer." + std::string(name) &&
                 !is_guarded(item.call->node);
        }))
      return fmt::format("{} after the training runs on every rank: let rank 0 do it", name);
  if (std::ranges::any_of(code.all,
                          [](const CallAt& item) { return item.call->full_name == "wandb.init"; }))
    return "wandb.init runs on every rank: let rank 0 do it";
  return "";
}

bool shards_by_arguments(const TrainingCode& code) {
  return std::ranges::any_of(code.arguments, [](const CallAt& item) {
    const PythonArgument* const deepspeed = item.call->argument("deepspeed");
    const PythonArgument* const fsdp = item.call->argument("fsdp");
    return (deepspeed != nullptr && !is_none(deepspeed->value)) ||
           (fsdp != nullptr && !is_none(fsdp->value) && string_value(fsdp->value) != "");
  });
}

}  // namespace lockstep
