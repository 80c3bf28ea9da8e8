// Finds training loops that use one GPU of several, or all of them through nn.DataParallel, and
// turns the script into DDP.
//
// Why it costs: a plain loop trains on one GPU, whatever else is in the machine. nn.DataParallel
// copies the model to every GPU in every step, gathers all outputs on the first, and runs in one
// process, whose Python is the limit: GPU 0 leads and the others wait (the reason why PyTorch
// advises against it).
//
// A plain loop is spoken of only where several GPUs are known (--gpus, the launch line, the job):
// most such scripts are meant for one. The launch line changes with the script, in one patch.
#include <fmt/format.h>

#include <algorithm>

#include "fix/rules/conversion/one_process.hpp"

namespace lockstep {

void plain_python(const RuleInput& input, const ScriptFacts& script,
                  std::vector<CodeFinding>& findings);

namespace {

std::optional<int> several_gpus(const RuleInput& input, const ScriptFacts& script) {
  for (const Launch& launch : script.launches)
    if (const auto visible = visible_gpus(input.project, launch).count;
        launch.launcher == Launcher::python && visible && *visible > 1)
      return visible;
  if (input.wishes.gpus && *input.wishes.gpus > 1) return input.wishes.gpus;
  return std::nullopt;
}

// What the launch lines become once the script is another: the rule about plain python is asked on
// the converted project.
struct LaunchChanges {
  std::vector<Change> files;
  std::string objection;
};
LaunchChanges launch_changes(const RuleInput& input, const ScriptFacts& script,
                             const std::vector<Edit>& edits) {
  const FileId file = script.code.script;
  const Project after =
      input.project.with({{file, edited(input.project.file(file).text(), edits)}});
  std::map<FileId, ScriptFacts> scripts;
  ScriptFacts& converted = scripts[file] = script_facts(after, file);
  converted.launches = script.launches;
  std::vector<CodeFinding> lines;
  plain_python(RuleInput{after, input.wishes, scripts}, converted, lines);
  LaunchChanges changes;
  for (const CodeFinding& line : lines) {
    const Way& way = line.ways.front();
    if (way.safety == FixSafety::manual) changes.objection = way.description;
    for (const Change& change : way.files)
      if (change.file != file) changes.files.push_back(change);
  }
  return changes;
}

bool sums_its_loss(std::string_view text) {
  return text.find("reduction=\"sum\"") != std::string_view::npos ||
         text.find("reduction='sum'") != std::string_view::npos ||
         text.find("size_average=False") != std::string_view::npos;
}

std::string notes(const RuleInput& input, const SingleProcessScript& single, bool has_parallel) {
  std::string words =
      !has_parallel && input.wishes.batch == GlobalBatch::grow
          ? "the global batch grows N times (--global-batch keep divides it); the order of the data"
          : "the order of the data";
  if (has_parallel)
    words +=
        "; random layers draw on every rank by itself; checkpoints are named without `module.`: "
        "those from before no longer load (torch.nn.modules.utils."
        "consume_prefix_in_state_dict_if_present takes the prefix off)";
  if (sums_its_loss(text_of(input, single.file)))
    words += !has_parallel
                 ? "; the loss is a sum over a rank's batch, and DDP takes the mean of the ranks'"
                 : "; the loss is a sum, and DDP takes the mean of the ranks': gradients become "
                   "1/N of what they were (multiply the loss by dist.get_world_size())";
  const std::string_view text = text_of(input, single.file);
  if (text.find("BatchNorm") != std::string_view::npos)
    words += "; BatchNorm sees each rank's share (SyncBatchNorm would see all)";
  return words +
         "; what is printed is rank 0's share; a parameter that a pass does not use ends the run "
         "(find_unused_parameters=True allows it)";
}

}  // namespace

void to_ddp(const RuleInput& input, const ScriptFacts& script, std::vector<CodeFinding>& findings) {
  const TrainingCode& code = script.code;
  if (script.loops.empty() || code.trains() || !code.joins.empty() || !code.wraps.empty() ||
      !code.accelerators.empty() || !code.trainers.empty() || !code.starts_itself.empty() ||
      code.knows_of_ranks())
    return;
  // a notebook has a way of its own
  if (!asks_for_cuda(input, script) || input.project.file(code.script).is_notebook()) return;
  const auto parallel = std::ranges::find_if(
      code.all, [](const CallAt& item) { return item.call->last_name() == "DataParallel"; });
  const bool has_parallel = parallel != code.all.end();
  const auto gpus = several_gpus(input, script);
  if ((!has_parallel && !gpus) || is_meant_for_one_process(input, script)) return;
  const SingleProcessScript single = understand_single_process(input, script);

  Converted converted;
  LaunchChanges lines;
  std::string objection = single.objection;
  if (objection.empty()) objection = breaks_as_several(input, script, single);
  if (objection.empty()) {
    converted = convert_to_ddp(input, script, single);
    objection = converted.objection;
  }
  if (objection.empty()) {
    lines = launch_changes(input, script, converted.edits);
    objection = lines.objection;
  }
  CodeFinding finding;
  finding.code = has_parallel ? FindingCode::one_gpu_leads : FindingCode::idle_gpus;
  finding.severity = Severity::critical;
  finding.confidence = 0.85;
  finding.where = {has_parallel ? place_of(parallel->file, parallel->call->node)
                                : place_of(script.loops.front().file, script.loops.front().loop)};
  finding.reason = has_parallel
                       ? "nn.DataParallel: one process copies the model to every GPU in every "
                         "step, and GPU 0 gathers for all"
                       : fmt::format("the loop trains on one GPU, and there are {}", *gpus);
  Way way;
  const std::string start =
      fmt::format("torchrun --standalone --nproc_per_node={} {}",
                  gpus ? std::to_string(*gpus) : "gpu", input.project.file(code.script).name());
  way.kind = FixKind::edit;
  way.safety = objection.empty() ? FixSafety::unsafe : FixSafety::manual;
  way.effect = "all GPUs work at once; published: 1.8-1.9x on 2, 3.5-3.8x on 4";
  way.changes = notes(input, single, has_parallel);
  if (objection.empty()) {
    way.description = fmt::format(
        "one process per GPU with DistributedDataParallel{}",
        lines.files.empty() ? fmt::format("; start it with {}", start) : ", started by torchrun");
    way.files.push_back({code.script, converted.edits});
    way.files.insert(way.files.end(), lines.files.begin(), lines.files.end());
  } else {
    way.kind = FixKind::advice;
    way.description = fmt::format(
        "make it one process per GPU with DistributedDataParallel, by hand: {}", objection);
  }
  finding.ways.push_back(std::move(way));
  findings.push_back(std::move(finding));
}

}  // namespace lockstep
