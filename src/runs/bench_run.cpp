#include "runs/bench_run.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "launch/arguments/machine_facts.hpp"
#include "runs/probed_run.hpp"
#include "runs/watched_training.hpp"

namespace lockstep {
namespace {

void take_report(const Report& report, const BenchCase& what, BenchRound& round) {
  // Those that it held; where no job was seen, the first ones.
  const auto held = [&](int index) {
    return report.jobs.empty() ||
           std::ranges::find(report.jobs.front().gpus, index) != report.jobs.front().gpus.end();
  };
  for (const GpuReport& gpu : report.gpus)
    if (round.busy.size() < static_cast<std::size_t>(what.devices) && held(gpu.info.index))
      round.busy.push_back(gpu.busy.value_or(0));
  if (!report.steps) return;
  for (std::size_t i = 0; i < kStepSpanNames.size(); ++i)
    if (report.steps->share[i] > 0)
      round.parts.emplace_back(kStepSpanNames[i], report.steps->share[i]);
}

// "0,1": the first of those that the user lets programs see.
std::string first_devices(int count) {
  const Variables around = own_variables();
  std::vector<std::string> names;
  if (const auto given = around.find("CUDA_VISIBLE_DEVICES"); given != around.end())
    for (const std::string_view name : split(given->second, ',')) names.emplace_back(name);
  for (int next = static_cast<int>(names.size()); next < count; ++next)
    names.push_back(std::to_string(next));
  names.resize(static_cast<std::size_t>(count));
  return join(names, ",");
}

}  // namespace

Result<BenchRun> run_trainer(const BenchCase& what, const BenchRunOptions& options) {
  TrainingWatchOptions how;
  how.input = options.on_gpus ? "" : fmt::format("virtual:{}", what.devices);
  how.duration = options.duration;
  how.quiet = true;
  auto watched = TRY(run_and_watch(what.title, what.command, how));
  BenchRun run;
  run.interrupted = watched.interrupted;
  if (run.interrupted) return run;
  if (watched.failed) {
    run.failure = "the training failed; its own words are above";
    return run;
  }
  if (!watched.speed.batches_per_s) {
    run.failure =
        "too few steps were seen: give it more time (--duration 20s), or a smaller --model or "
        "--batch-size";
    return run;
  }
  const std::int64_t samples_of_pass =
      what.batch * (what.way == "data-parallel" ? what.devices : 1);
  run.round.speed = *watched.speed.batches_per_s * static_cast<double>(samples_of_pass);
  run.round.step_ms = 1000 * static_cast<double>(samples_of_pass * what.accumulation * what.ranks) /
                      run.round.speed;
  run.round.other_cores = watched.other_cores;
  run.speed = watched.speed;
  take_report(watched.measured.report, what, run.round);
  return run;
}

Result<BenchRun> run_script(const BenchCase& what, const BenchRunOptions& options) {
  ProbedRunOptions how;
  how.steps = options.steps;
  how.duration = options.longest;
  if (options.on_gpus) how.variables["CUDA_VISIBLE_DEVICES"] = first_devices(what.devices);
  // its last words may be errors
  std::vector<std::string> command = {"/bin/sh", "-c", "exec \"$0\" \"$@\" 2>&1"};
  command.insert(command.end(), what.command.begin(), what.command.end());
  auto probed = TRY(run_probed(command, how));
  BenchRun run;
  run.interrupted = probed.interrupted;
  run.failure = probed.failure;
  run.speed = probed.speed;
  if (probed.report.steps) run.round.step_ms = probed.report.steps->duration_p50_ms;
  take_report(probed.report, what, run.round);
  return run;
}

}  // namespace lockstep
