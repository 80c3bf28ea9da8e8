// Finds a training script that knows how to run as several processes and is started as one.
//
// Why it costs: `python train.py` sets no WORLD_SIZE. Transformers' Trainer then wraps the model in nn.DataParallel (one
// process feeds all GPUs, GPU 0 does the gathering) or, with a split model, lets the GPUs take turns; Accelerate and DDP use
// one GPU and leave the others idle. torchrun starts one process a GPU.
//
// Silent where one process is meant: one visible GPU, a GPU chosen by an argument or in the code, evaluation, scripts that
// make their own processes (mp.spawn, Lightning, Ray, DeepSpeed), and lines under mpirun or with several SLURM tasks.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "fix/rules/global_batch.hpp"

namespace lockstep {

void device_map(const RuleInput&, const ScriptFacts&, std::vector<CodeFinding>&);

namespace {

constexpr std::array<std::string_view, 17> kChoosesGpus = {"--gpu", "--gpus", "--gpu_id", "--gpu-id", "--gpu_ids", "--gpu-ids", "--device", "--devices", "--cuda", "--cuda_device",
                                                           "--local_rank", "--local-rank", "--n_gpu", "--ngpu", "--num_gpus", "--world_size", "--nproc_per_node"};
constexpr std::array<std::string_view, 14> kDoesNotTrain = {"--help", "-h", "--eval", "--evaluate", "--eval_only", "--eval-only", "--test", "--test_only", "--test-only", "--inference",
                                                            "--predict", "--dry-run", "--dry_run", "--generate"};

bool one_process_is_meant(const Launch& launch) {
  bool names_phases = false;
  bool trains = false;
  const auto words = launch.arguments();
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const std::string name = word.substr(0, word.find('='));
    const std::string value = word.find('=') != std::string::npos ? word.substr(word.find('=') + 1) : i + 1 < words.size() ? words[i + 1] : "";
    if (name == "--do_train" && (value == "False" || value == "false" || value == "0")) return true;
    if (std::find(kChoosesGpus.begin(), kChoosesGpus.end(), name) != kChoosesGpus.end()) return true;
    if (std::find(kDoesNotTrain.begin(), kDoesNotTrain.end(), name) != kDoesNotTrain.end()) return true;
    if (name.find("unsloth") != std::string::npos && value != "False" && value != "false") return true;  // one GPU only
    names_phases = names_phases || name.starts_with("--do_");
    trains = trains || name == "--do_train";
  }
  return (names_phases && !trains) || (launch.line->in_loop && launch.line->in_background);
}

// More than one task a node: SLURM starts the processes. More than one node: --standalone would part them.
bool slurm_has_its_own_way(const std::string& text, const Launch& launch) {
  const auto more_than_one = [&](std::initializer_list<std::string_view> names) {
    const auto value = sbatch_value(text, names);
    return value && *value != "1";
  };
  if (more_than_one({"--nodes", "-N"})) return true;
  if (!launch.under_srun) return false;
  if (more_than_one({"--ntasks-per-node"}) || more_than_one({"--ntasks", "-n"}) || more_than_one({"--ntasks-per-gpu"})) return true;
  for (std::size_t i = 0; i < launch.first_word; ++i) {
    const std::string& raw = launch.line->words[i].raw;
    if ((raw.starts_with("--ntasks") || raw.starts_with("-n") || raw.starts_with("-N") || raw.starts_with("--nodes")) && raw.find("=1") == std::string::npos) {
      const bool next_is_one = raw.find('=') == std::string::npos && i + 1 < launch.first_word && launch.line->words[i + 1].raw == "1";
      if (!next_is_one && raw != "-n1" && raw != "-N1") return true;
    }
  }
  return false;
}

// Azure ML's `distribution:` and Kubeflow's PyTorchJob start or name the processes themselves.
bool platform_has_its_own_way(const Project& project, const Launch& launch) {
  if (project.file(launch.file).kind() != FileKind::yaml) return false;
  for (const Node& pair : launch.line->owner.children())
    if (const std::string_view key = pair.field("key").text(); key == "distribution" || key == "distributed") return true;
  return project.file(launch.file).text().find("kind: PyTorchJob") != std::string::npos || project.file(launch.file).text().find("kind: TrainJob") != std::string::npos ||
         project.file(launch.file).text().find("kind: MPIJob") != std::string::npos || project.file(launch.file).text().find("kind: RayJob") != std::string::npos;
}

// DDP joined by hand: torchrun's variables must be what it reads.
bool joins_by_environment(const TrainingCode& code) {
  return std::all_of(code.joins.begin(), code.joins.end(), [](const CallAt& join) {
    const PythonArgument* const method = join.call->argument("init_method");
    return (join.call->argument("rank") == nullptr || !environment_read_in(join.call->node).empty()) && (method == nullptr || string_value(method->value) == "env://");
  });
}

std::vector<std::string> launcher_words(const Launch& launch, const std::string& processes) {
  const CommandWord& python = launch.line->words[launch.first_word];
  const std::string count = "--nproc_per_node=" + processes;
  std::vector<std::string> words;
  const bool bare = python.raw == "python" || python.raw == "python3" || python.raw == "\"python\"" || python.raw == "\"python3\"" || python.raw == "'python'" || python.raw == "'python3'";
  const bool only_unbuffered = std::all_of(launch.options.begin(), launch.options.end(), [](const std::string& option) { return option == "-u"; });
  if (bare && only_unbuffered) {
    words = {"torchrun"};
  } else {
    // Another interpreter, or options for it: they are kept.
    for (std::size_t i = launch.first_word; i < launch.script_word; ++i)
      if (launch.line->words[i].raw != "-m" && launch.line->words[i].raw != "-u") words.push_back(launch.line->words[i].raw);
    words.insert(words.end(), {"-m", "torch.distributed.run"});
  }
  words.insert(words.end(), {"--standalone", count});
  if (launch.is_module) words.emplace_back("-m");
  return words;
}

std::string reason_for(const ScriptFacts& script, const std::string& visible, const std::string& devices) {
  const std::string lead = fmt::format("plain python starts one process{}, and WORLD_SIZE is not set: ", visible.empty() ? "" : fmt::format(" for the {} GPUs of {}", devices, visible));
  if (script.code.trains_with_trainer) {
    const bool split = std::any_of(script.code.trained_loads.begin(), script.code.trained_loads.end(),
                                   [&](std::size_t load) { return script.code.loads[load].call->argument("device_map") != nullptr; });
    if (split) return lead + "with a split model the GPUs take turns, and Trainer says nothing";
    return lead + "where several GPUs are visible Trainer falls back to nn.DataParallel, where GPU 0 gathers for all";
  }
  return lead + (script.code.trains_with_accelerate ? "Accelerate then trains on one GPU" : "the script's own DDP is never used") + " and the others are idle";
}

// The branch that a launch-aware script takes from now on may divide the accumulation by the ranks.
std::string word_on_branches(const Project& project, const ScriptFacts& script) {
  for (const FileId file : {script.code.script}) {
    const PythonModule& module = *project.file(file).python();
    for (std::uint32_t index = 0; index < module.tree().size(); ++index) {
      const Node node = module.tree().at(index);
      if (!node.is("assignment") && !node.is("augmented_assignment")) continue;
      const std::string_view target = node.field("left").text();
      if (target.find("accumulation") == std::string_view::npos && target.find("batch_size") == std::string_view::npos) continue;
      const Node condition = node.enclosing("if_statement").field("condition");
      if (condition.text().find("ddp") == std::string_view::npos && condition.text().find("world_size") == std::string_view::npos && condition.text().find("WORLD_SIZE") == std::string_view::npos) continue;
      return fmt::format("; the script's own branch for several processes then sets {} ({}), so the batch settings of the other branch no longer apply", target,
                         place_words(project, place_of(file, node)));
    }
  }
  return "";
}

void inspect_launch(const RuleInput& input, const ScriptFacts& script, const Launch& launch, bool script_changes_too, std::vector<CodeFinding>& findings) {
  const Project& project = input.project;
  const std::string& text = project.file(launch.file).text();
  if (launch.launcher != Launcher::python || one_process_is_meant(launch) || slurm_has_its_own_way(text, launch) || platform_has_its_own_way(project, launch)) return;
  VisibleGpus visible = visible_gpus(project, launch);
  if (script.code.visible_devices && !script.code.pinned) visible = {device_count(*script.code.visible_devices), fmt::format("CUDA_VISIBLE_DEVICES={} in the script", *script.code.visible_devices)};
  if (!visible.count && input.wishes.gpus) visible = {input.wishes.gpus, "--gpus"};
  if (visible.count && *visible.count < 2) return;
  const std::string processes = visible.count ? std::to_string(*visible.count) : "gpu";

  CodeFinding finding;
  finding.code = FindingCode::world_size_not_set;
  finding.severity = Severity::critical;
  finding.reason = reason_for(script, visible.from, processes) + word_on_branches(project, script);
  finding.where = {{launch.file, launch.line->words[launch.first_word].from, launch.line->words[launch.script_word].to}};
  if (script_changes_too) finding.group = launch_group(script.code.script);
  Way way;
  way.safety = FixSafety::unsafe;
  way.description = fmt::format("start one process a GPU with torchrun ({})", visible.count ? visible.from : "as many as there are GPUs");
  way.effect = "all GPUs work at once; published: 1.8-1.9x on 2, 3.5-3.8x on 4";
  way.changes = batch_words(script, visible.count);
  way.files.push_back({launch.file, launch.line->replace(text, launch.first_word, launch.script_word, launcher_words(launch, processes))});
  finding.ways.push_back(way);
  if (auto same = same_global_batch(project, script, visible.count)) {
    same->files.push_back(way.files.front());
    if (input.wishes.batch == GlobalBatch::keep && same->safety != FixSafety::manual) finding.ways.insert(finding.ways.begin(), std::move(*same));
    else {
      same->safety = FixSafety::manual;
      finding.ways.push_back(std::move(*same));
    }
  }
  findings.push_back(std::move(finding));
}

}  // namespace

void plain_python(const RuleInput& input, const ScriptFacts& script, std::vector<CodeFinding>& findings) {
  const TrainingCode& code = script.code;
  if (!code.trains() || !code.starts_itself.empty() || code.pinned) return;
  if (!code.trains_with_trainer && !code.trains_with_accelerate && !(joins_by_environment(code) && code.knows_of_ranks())) return;
  // A split model and its launch line change together: either alone ends with an error or with one busy GPU.
  std::vector<CodeFinding> of_script;
  device_map(input, script, of_script);
  const bool together = std::any_of(of_script.begin(), of_script.end(), [](const CodeFinding& finding) { return !finding.group.empty(); });
  for (const Launch& launch : script.launches) inspect_launch(input, script, launch, together, findings);
}

}  // namespace lockstep
