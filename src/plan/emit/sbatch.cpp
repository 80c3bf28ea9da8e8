// A Slurm job: one task a node, which starts the ranks of its node; the first node is where they meet.
#include <fmt/format.h>

#include "base/text.hpp"
#include "plan/emit/parts.hpp"

namespace lockstep {

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
  // Two minutes before the end the shell hears of it, and hands it on.
  option("--signal=B:TERM@120");
  option(fmt::format("--output={}-%j.log", name));
  option("--open-mode=append");
  text += fmt::format("#\n# {} on {} x {} a node, {} {}; batch {} x {} {} an update (global {})\n", plan.model.name, gpus, plan.hardware.gpu, way.nodes, way.nodes == 1 ? "node" : "nodes", way.micro_batch, way.accumulation,
                      way.accumulation == 1 ? "pass" : "passes", way.global_batch);
  text += fmt::format("# submit: sbatch {0}.sbatch\n# watch:  squeue --me --name={0}\n# read:   tail -F {0}-JOBID.log\n", name);
  text += "set -euo pipefail\n\n";
  for (const auto& [variable, value] : variables_of(plan)) text += fmt::format("export {}={}\n", variable, shell_quoted(value));
  if (!is_one_process(way) && way.nodes > 1) text += "head_node=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n";
  text += "\n";
  std::string launch;
  if (is_one_process(way)) launch = "python";
  else if (way.nodes == 1) launch = fmt::format("torchrun --standalone --nproc_per_node={}", processes_a_node(way));
  else launch = fmt::format("torchrun \\\n  --nnodes=\"$SLURM_JOB_NUM_NODES\" --nproc_per_node={} \\\n  --rdzv_id=\"$SLURM_JOB_ID\" --rdzv_backend=c10d --rdzv_endpoint=\"$head_node:29500\"", processes_a_node(way));
  // In the background, so that the shell hears the signal while it waits; then it waits for the last checkpoint, too. srun takes no
  // --cpus-per-task from its job since Slurm 22.05.
  text += fmt::format("srun --kill-on-bad-exit=1 --cpus-per-task=\"$SLURM_CPUS_PER_TASK\" {} \\\n  {} &\nsteps=$!\ntrap 'kill -TERM \"$steps\"; wait \"$steps\"' TERM\nwait \"$steps\"\n", launch, script_words(input));
  Emitted emitted;
  emitted.text = text;
  emitted.notes = {fmt::format("submit: sbatch {}.sbatch", name), fmt::format("watch:  squeue --me --name={}", name), fmt::format("read:   tail -F {}-JOBID.log", name)};
  for (std::string& note : notes_of(plan)) emitted.notes.push_back(std::move(note));
  return emitted;
}

}  // namespace lockstep
