// A Slurm job: one task a node, which starts the ranks of its node; the first node is where they
// meet.
#include <fmt/format.h>

#include "base/text.hpp"
#include "plan/emit/parts.hpp"

namespace lockstep {
namespace {

// What starts the ranks of a node. lockstep launch reads from Slurm which node it is and where the
// first one is.
std::string launcher_words(const EmitInput& input) {
  const PlannedWay& way = input.plan.choice;
  const bool program = is_program(input.script);
  if (is_one_process(way)) return program ? "" : "python";
  const std::string no_python = program ? " --no-python" : "";
  if (input.by_lockstep)
    return fmt::format("lockstep launch{} --grace=110s --nproc-per-node={}{}",
                       way.nodes == 1 ? " --standalone" : "", processes_a_node(way), no_python);
  if (way.nodes == 1)
    return fmt::format("torchrun --standalone --nproc_per_node={}{}", processes_a_node(way),
                       no_python);
  // Two jobs may have the same first node: each has a port of its own, the one of base/slurm.hpp.
  return fmt::format(
      "torchrun \\\n  --nnodes=\"$SLURM_JOB_NUM_NODES\" --nproc_per_node={} \\\n  "
      "--rdzv_id=\"$SLURM_JOB_ID\" --rdzv_backend=c10d --rdzv_endpoint=\"$head_node:$((20000 + 2 * "
      "(SLURM_JOB_ID % 5000)))\"{}",
      processes_a_node(way), no_python);
}

}  // namespace

Result<Emitted> emit_sbatch(const EmitInput& input) {
  const Plan& plan = input.plan;
  const PlannedWay& way = plan.choice;
  const std::string name = job_name(input);
  const int gpus = way.gpus / way.nodes;
  std::string text = "#!/bin/bash\n";
  const auto option = [&](std::string_view words) { text += fmt::format("#SBATCH {}\n", words); };
  option("--job-name=" + name);
  option(fmt::format("--nodes={}", way.nodes));
  option("--ntasks-per-node=1");
  option(fmt::format("--gres=gpu:{}", gpus));
  option(fmt::format("--cpus-per-task={}", plan.hardware.cores_a_node));
  if (way.strategy == "offload") option("--mem=0");
  option("--time=24:00:00");
  // Two minutes before the end the tasks hear of it, and not the shell: an srun that gets SIGTERM
  // itself kills its tasks at once.
  option("--signal=TERM@120");
  option(fmt::format("--output={}-%j.log", name));
  option("--open-mode=append");
  // After the loss of a node Slurm starts the job again; the log goes on.
  option("--requeue");
  text += fmt::format("#\n# {} on {} x {} a node, {} {}; batch {} x {} {} an update (global {})\n",
                      plan.model.name, gpus, plan.hardware.gpu, way.nodes,
                      way.nodes == 1 ? "node" : "nodes", way.micro_batch, way.accumulation,
                      way.accumulation == 1 ? "pass" : "passes", way.global_batch);
  text += fmt::format(
      "# submit: sbatch {0}.sbatch\n# watch:  squeue --me --name={0}\n# read:   tail -F "
      "{0}-JOBID.log\n",
      name);
  text += "set -euo pipefail\n\n";
  for (const auto& [variable, value] : variables_of(plan))
    text += fmt::format("export {}={}\n", variable, shell_quoted(value));
  if (!is_one_process(way) && way.nodes > 1 && !input.by_lockstep)
    text += "head_node=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | sed -n 1p)\n";
  text += "\n";
  // srun takes no --cpus-per-task from its job since Slurm 22.05.
  const std::string launcher = launcher_words(input);
  text += fmt::format("srun --kill-on-bad-exit=1 --cpus-per-task=\"$SLURM_CPUS_PER_TASK\" {}{}{}\n",
                      launcher, launcher.empty() ? "" : " \\\n  ", script_words(input));
  Emitted emitted;
  emitted.text = text;
  emitted.notes = {fmt::format("submit: sbatch {}.sbatch", name),
                   fmt::format("watch:  squeue --me --name={}", name),
                   fmt::format("read:   tail -F {}-JOBID.log", name)};
  for (std::string& note : notes_of(plan)) emitted.notes.push_back(std::move(note));
  return emitted;
}

}  // namespace lockstep
