// Finds a training script that knows how to run as several processes and is started as one.
//
// Why it costs: `python train.py` sets no WORLD_SIZE. Transformers' Trainer then wraps the model in
// nn.DataParallel (one process feeds all GPUs, GPU 0 does the gathering) or, with a split model,
// lets the GPUs take turns; Accelerate and DDP use one GPU and leave the others idle. torchrun
// starts one process per GPU.
//
// Silent where one process is meant: one visible GPU, a GPU chosen by an argument or in the code,
// evaluation, scripts that make their own processes (mp.spawn, Lightning, Ray, DeepSpeed), and
// lines under mpirun or with several SLURM tasks.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "fix/rules/arguments/global_batch.hpp"
#include "fix/rules/launching/rank_hazards.hpp"

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 17> kChoosesGpus = {
    "--gpu",    "--gpus",    "--gpu_id",   "--gpu-id",      "--gpu_ids",       "--gpu-ids",
    "--device", "--devices", "--cuda",     "--cuda_device", "--local_rank",    "--local-rank",
    "--n_gpu",  "--ngpu",    "--num_gpus", "--world_size",  "--nproc_per_node"};
constexpr std::array<std::string_view, 14> kDoesNotTrain = {
    "--help",      "-h",        "--eval",      "--evaluate",  "--eval_only",
    "--eval-only", "--test",    "--test_only", "--test-only", "--inference",
    "--predict",   "--dry-run", "--dry_run",   "--generate"};

constexpr std::array<std::string_view, 17> kOtherWork = {
    "generate",  "eval",  "evaluate", "test",    "predict", "infer",
    "inference", "serve", "export",   "convert", "prepare", "preprocess",
    "download",  "plot",  "merge",    "chat",    "demo"};

// `finetune.py split`: a bare word in front names what the script is to do, and few of those train.
bool asks_for_other_work(const std::string& word) {
  if (word.empty() ||
      std::ranges::any_of(word, [](unsigned char c) { return std::isalpha(c) == 0 && c != '_'; }))
    return false;
  for (const char* work :
       {"train", "fit", "tune", "sft", "dpo", "run", "pretrain", "grpo", "lora", "start"})
    if (word.find(work) != std::string::npos) return false;
  return true;
}

bool one_process_is_meant(const Project& project, const ScriptFacts& script, const Launch& launch) {
  bool names_phases = false;
  bool trains = false;
  const auto words = launch.arguments();
  const std::string& text = project.file(script.code.script).text();
  // It is a launcher itself.
  if (holds_any(text, {"subprocess", "os.system(", "Popen("}) &&
      holds_any(text, {"torch.distributed.launch", "torchrun", "accelerate launch"}))
    return true;
  if (!words.empty() && std::ranges::find(kOtherWork, words.front()) != kOtherWork.end())
    return true;
  // Compared in the script, it is a sub-command; else it may be a model's or a dataset's name.
  if (!words.empty() && asks_for_other_work(words.front()) &&
      (text.find("\"" + words.front() + "\"") != std::string::npos ||
       text.find("'" + words.front() + "'") != std::string::npos))
    return true;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const std::string name = word.substr(0, word.find('='));
    const std::string value = word.find('=') != std::string::npos ? word.substr(word.find('=') + 1)
                              : i + 1 < words.size()              ? words[i + 1]
                                                                  : "";
    if (name == "--do_train" && (value == "False" || value == "false" || value == "0")) return true;
    if (std::ranges::find(kChoosesGpus, name) != kChoosesGpus.end()) return true;
    // a resumed run keeps its shape
    if (name == "--use_cpu" || name == "--no_cuda" || name == "--cpu" || name == "--to_onnx" ||
        name == "--resume_from_checkpoint")
      return true;
    if (std::ranges::find(kDoesNotTrain, name) != kDoesNotTrain.end()) return true;
    // one GPU only
    if (name.find("unsloth") != std::string::npos && value != "False" && value != "false")
      return true;
    std::string plain = name;
    std::ranges::replace(plain, '-', '_');
    if (plain.ends_with("eval_only") || plain.ends_with("evaluate_only") ||
        plain.ends_with("test_only") || plain.ends_with("predict_only"))
      return true;
    if (plain.find("checkpoint_dir") != std::string::npos &&
        value.find("checkpoint-") != std::string::npos)
      return true;
    names_phases = names_phases || plain.starts_with("__do_");
    trains = trains || plain == "__do_train";
  }
  // its own option
  const bool evaluates_besides =
      text.find("do_eval") != std::string::npos && text.find("do_train") == std::string::npos;
  return names_phases && !trains && !evaluates_besides;
}

// Runs side by side: a loop's, or several of one script, each on GPUs of its own, or on all of them
// at once.
bool runs_beside_others(const ScriptFacts& script, const Launch& launch) {
  if (!launch.line->in_background) return false;
  if (launch.line->in_loop) return true;
  return std::ranges::count_if(script.launches, [&](const Launch& other) {
           return other.file == launch.file && other.line->in_background;
         }) > 1;
}

// A Dockerfile that takes neither CUDA's image nor PyTorch's: the project also trains on the CPU.
bool has_an_image_without_cuda(const Project& project) {
  for (FileId file = 0; file < project.size(); ++file) {
    if (project.file(file).kind() != FileKind::dockerfile) continue;
    const std::string text = lower_case(project.file(file).text());
    const bool with_cuda =
        std::ranges::any_of(std::array{"cuda", "nvidia", "pytorch/", "gpu", "rocm", "nvcr"},
                            [&](const char* word) { return text.find(word) != std::string::npos; });
    if (text.find("from ") != std::string::npos && !with_cuda) return true;
  }
  return false;
}

// More than one task a node: SLURM starts the processes. More than one node: --standalone would
// part them.
bool slurm_has_its_own_way(const std::string& text, const Launch& launch) {
  std::vector<std::string> own;
  for (std::size_t i = 0; i < launch.first_word; ++i)
    own.push_back(launch.line->words[i].value.value_or(launch.line->words[i].raw));
  const auto more_than_one = [&](std::initializer_list<std::string_view> names) {
    const auto on_line = option_among(own, names);
    const auto value = on_line ? on_line : sbatch_value(text, names);
    return value && *value != "1";
  };
  if (more_than_one({"--nodes", "-N"})) return true;
  return launch.under_srun &&
         (more_than_one({"--ntasks-per-node"}) || more_than_one({"--ntasks", "-n"}) ||
          more_than_one({"--ntasks-per-gpu"}));
}

// Azure ML's `distribution:` and Kubeflow's PyTorchJob start or name the processes themselves.
bool platform_has_its_own_way(const Project& project, const Launch& launch) {
  if (project.file(launch.file).kind() != FileKind::yaml) return false;
  for (const Node& pair : launch.line->owner.children())
    if (const std::string_view key = pair.field("key").text();
        key == "distribution" || key == "distributed")
      return true;
  return project.file(launch.file).text().find("kind: PyTorchJob") != std::string::npos ||
         project.file(launch.file).text().find("kind: TrainJob") != std::string::npos ||
         project.file(launch.file).text().find("kind: MPIJob") != std::string::npos ||
         project.file(launch.file).text().find("kind: RayJob") != std::string::npos;
}

// DDP joined by hand: torchrun's variables must be what it reads.
bool joins_by_environment(const TrainingCode& code) {
  return std::ranges::all_of(code.joins, [](const CallAt& join) {
    const PythonArgument* const method = join.call->argument("init_method");
    return (join.call->argument("rank") == nullptr ||
            !environment_read_in(join.call->node).empty()) &&
           (method == nullptr || string_value(method->value) == "env://");
  });
}

std::vector<std::string> launcher_words(const Launch& launch, const std::string& processes) {
  const CommandWord& python = launch.line->words[launch.first_word];
  const std::string count = "--nproc_per_node=" + processes;
  std::vector<std::string> words;
  // In a list the quotes are put around each new word by itself.
  const bool list = launch.line->style != WordStyle::shell;
  const auto written = [&](const CommandWord& word) {
    return list ? word.value.value_or(word.raw) : word.raw;
  };
  const bool bare = written(python) == "python" || written(python) == "python3";
  const bool only_unbuffered =
      std::ranges::all_of(launch.options, [](const std::string& option) { return option == "-u"; });
  if (bare && only_unbuffered) {
    words = {"torchrun"};
  } else {
    // Another interpreter, or options for it: they are kept.
    for (std::size_t i = launch.first_word; i < launch.script_word; ++i)
      if (written(launch.line->words[i]) != "-m" && written(launch.line->words[i]) != "-u")
        words.push_back(written(launch.line->words[i]));
    words.insert(words.end(), {"-m", "torch.distributed.run"});
  }
  words.insert(words.end(), {"--standalone", count});
  if (launch.is_module) words.emplace_back("-m");
  return words;
}

std::string reason_for(const Project& project, const ScriptFacts& script, const Launch& launch,
                       const std::string& visible, const std::string& devices) {
  const TrainingCode& code = script.code;
  if (shards_by_arguments(code))
    return "plain python starts one process: DeepSpeed and FSDP shard over the processes that a "
           "launcher starts, and there is none";
  const std::string lead =
      fmt::format("plain python starts one process{}, and WORLD_SIZE is not set: ",
                  visible.empty() ? "" : fmt::format(" for the {} GPUs of {}", devices, visible));
  if (code.trains_with_trainer) {
    const bool split = std::ranges::any_of(code.trained_loads, [&](std::size_t load) {
      return split_map_alone(project, code.loads[load], launch.arguments()).has_value();
    });
    return lead + (split ? "with a split model the GPUs take turns, and Trainer says nothing"
                         : "where several GPUs are visible Trainer falls back to nn.DataParallel, "
                           "where GPU 0 gathers for all");
  }
  return lead + (code.trains_with_accelerate
                     ? "Accelerate then trains on one GPU and the others are idle"
                     : "the script's own DDP has no ranks to join");
}

bool has_flags(const Project& project, const TrainingCode& code) {
  const auto& assignments = project.file(code.script).python()->assignments();
  return std::ranges::any_of(assignments, [](const PythonAssignment& item) {
    return item.target.ends_with(".is_parallelizable") || item.target.ends_with(".model_parallel");
  });
}

// Lines of the same folder that choose one GPU by its number: a machine that is shared, where
// nobody wants them all.
bool neighbours_take_one_gpu(const Project& project, const Launch& launch) {
  const auto folder = project.file(launch.file).path().parent_path();
  for (FileId file = 0; file < project.size(); ++file) {
    if (file == launch.file || project.file(file).kind() != FileKind::shell ||
        project.file(file).path().parent_path() != folder)
      continue;
    for (const Launch& other : launches_in(project, file))
      if (other.line->visible_devices && *other.line->visible_devices &&
          device_count(**other.line->visible_devices) == 1)
        return true;
  }
  return false;
}

// NUM_DEVICES=1 and the like: what the script computes from it holds for one GPU. And what stands
// behind a bare `exit`.
bool is_for_one_or_dead(const std::string& text, const Launch& launch) {
  static constexpr std::array<std::string_view, 9> kCounts = {
      "NUM_DEVICES", "num_devices", "NGPU",  "ngpu", "NUM_GPUS",
      "num_gpus",    "N_GPU",       "n_gpu", "NGPUS"};
  bool dead = false;
  for (std::size_t start = 0; start < launch.line->from && start < text.size();
       start = line_end(text, start)) {
    const std::string_view line =
        trim(std::string_view(text).substr(start, line_end(text, start) - start));
    for (const std::string_view name : kCounts)
      if (line == std::string(name) + "=1" || line == "export " + std::string(name) + "=1")
        return true;
    if (text[start] != ' ' && text[start] != '\t' && (line == "exit" || line == "exit 0"))
      dead = true;
  }
  return dead;
}

// The user's own word on the line above: one GPU is meant, or torchrun was tried.
bool is_told_apart(const SourceFile& file, const Launch& launch) {
  const std::string& text = file.text();
  const std::string stem = file.path().stem().string();
  for (const char* word : {"single", "smoke", "demo", "debug"})
    if (stem.find(word) != std::string::npos) return true;
  const std::size_t start = line_start(text, launch.line->from);
  if (start == 0) return false;
  std::string above(trim(std::string_view(text).substr(line_start(text, start - 1),
                                                       start - line_start(text, start - 1))));
  if (!above.starts_with("#")) return false;
  std::ranges::transform(above, above.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  // the last: "single card" in Chinese
  for (const char* word :
       {"torchrun", "ddp", "single", "one gpu", "1 gpu", "debug", "\xe5\x8d\x95\xe5\x8d\xa1"})
    if (above.find(word) != std::string::npos) return true;
  return false;
}

void inspect_launch(const RuleInput& input, const ScriptFacts& script, const Launch& launch,
                    bool script_changes_too, std::vector<CodeFinding>& findings) {
  const Project& project = input.project;
  const std::string& text = project.file(launch.file).text();
  if (launch.launcher != Launcher::python || one_process_is_meant(project, script, launch) ||
      runs_beside_others(script, launch) || is_told_apart(project.file(launch.file), launch) ||
      is_for_one_or_dead(text, launch) || slurm_has_its_own_way(text, launch) ||
      platform_has_its_own_way(project, launch))
    return;
  VisibleGpus visible = visible_gpus(project, launch);
  if (script.code.visible_devices && !script.code.pinned)
    visible = {device_count(*script.code.visible_devices),
               fmt::format("CUDA_VISIBLE_DEVICES={} in the script", *script.code.visible_devices)};
  if (!visible.count && input.wishes.gpus) visible = {input.wishes.gpus, "--gpus"};
  if (visible.count && *visible.count < 2) return;
  // run() { CUDA_VISIBLE_DEVICES=$1 ... }
  if (launch.line->visible_devices && !*launch.line->visible_devices && launch.line->in_function)
    return;
  if (!visible.count && neighbours_take_one_gpu(project, launch)) return;
  const std::string processes = visible.count ? std::to_string(*visible.count) : "gpu";

  CodeFinding finding;
  finding.code = FindingCode::world_size_not_set;
  finding.severity = Severity::critical;
  finding.reason = reason_for(project, script, launch, visible.from, processes);
  const auto branch = own_batch_branch(project, script);
  if (branch)
    finding.reason +=
        fmt::format("; the script sets {} ({}) by whether there are several processes",
                    branch->name, place_words(project, branch->place));
  finding.where = {{launch.file, launch.line->words[launch.first_word].from,
                    launch.line->words[launch.script_word].to}};
  if (script_changes_too) finding.group = launch_group(script.code.script);
  Way way;
  // `--nproc_per_node=gpu` ends with a ValueError where there is none.
  const bool may_have_no_gpu = !visible.count && has_an_image_without_cuda(project);
  way.safety = may_have_no_gpu ? FixSafety::manual : FixSafety::unsafe;
  way.description = fmt::format("start one process per GPU with torchrun ({})",
                                visible.count ? visible.from : "as many as there are GPUs");
  way.effect = "all GPUs work at once; published: 1.8-1.9x on 2, 3.5-3.8x on 4";
  way.changes = batch_words(input, script, visible.count);
  if (may_have_no_gpu)
    way.changes += "; the project's image has no CUDA: without a GPU this line ends with an error";
  if (const std::string more = work_of_every_rank(script.code); !more.empty())
    way.changes += "; " + more;
  if (launcher_words(launch, processes).front() != "torchrun" &&
      std::ranges::any_of(launch.options, [](const std::string& option) { return option != "-u"; }))
    way.changes += "; python's own options reach the launcher, no longer the training";
  if (!project.versions_for(launch.file).contains("torch"))
    way.changes += "; torchrun came with PyTorch 1.10";
  if (const std::string why = hazard_of_many_ranks(project, script.code); !why.empty()) {
    way.safety = FixSafety::manual;
    way.description += "; first " + why;
  }
  // Options that stand in a list of their own, after the interpreter's: there is no one stretch to
  // replace.
  if (launch.line->words[launch.script_word - 1].to > launch.line->to) return;
  way.files.push_back(
      {launch.file, launch.line->replace(text, launch.first_word, launch.script_word,
                                         launcher_words(launch, processes))});
  const Companion companion = companion_of(input, script);
  if (companion.change) way.files.push_back(*companion.change);
  if (!companion.words.empty()) way.changes += "; " + companion.words;
  if (!companion.possible) way.safety = FixSafety::manual;
  if (const std::string why =
          branch ? own_branch_fails(project, script, launch, visible.count) : "";
      !why.empty()) {
    way.safety = FixSafety::manual;
    way.description += "; first " + why;
  }
  finding.ways.push_back(way);
  if (auto same = same_global_batch(input, script, visible.count)) {
    const bool possible =
        same->safety == FixSafety::unsafe && finding.ways.front().safety != FixSafety::manual;
    if (!same->files.empty())
      same->files.insert(same->files.end(), way.files.begin(), way.files.end());
    if (input.wishes.batch == GlobalBatch::keep && possible) {
      finding.ways = {std::move(*same)};
    } else {
      // Asked to keep the batch, lockstep does not let it grow.
      if (input.wishes.batch == GlobalBatch::keep) finding.ways.front().safety = FixSafety::manual;
      same->safety = FixSafety::manual;
      same->description = "or " + same->description;
      finding.ways.push_back(std::move(*same));
    }
  }
  findings.push_back(std::move(finding));
}

}  // namespace

void plain_python(const RuleInput& input, const ScriptFacts& script,
                  std::vector<CodeFinding>& findings) {
  const TrainingCode& code = script.code;
  if (!code.trains() || !code.starts_itself.empty() || code.pinned) return;
  if (!code.trains_with_trainer && !code.trains_with_accelerate &&
      !(joins_by_environment(code) && code.knows_of_ranks()))
    return;
  // A split model and its launch line change together: either alone ends with an error or with one
  // busy GPU.
  const bool together = has_flags(input.project, code) ||
                        std::ranges::any_of(code.trained_loads, [&](std::size_t load) {
                          return split_map(input.project, code.loads[load]).has_value();
                        });
  for (const Launch& launch : script.launches)
    // before that there was no torchrun
    if (!is_older(input.project, launch.file, "torch", "1.10"))
      inspect_launch(input, script, launch, together, findings);
}

bool changes_launch_line(const RuleInput& input, const ScriptFacts& script) {
  std::vector<CodeFinding> findings;
  plain_python(input, script, findings);
  return std::ranges::any_of(findings, [](const CodeFinding& finding) {
    return finding.ways.front().safety != FixSafety::manual;
  });
}

}  // namespace lockstep
