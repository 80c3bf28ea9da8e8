#include "runs/calibrate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/output_file.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "plan/search.hpp"
#include "runs/trainer_program.hpp"

namespace lockstep {
namespace {

struct Measured {
  double step_ms = 0;
  double peak_bytes = 0;
};

// The fastest of the lines but the first: by then everything is warm, and whoever else is on the
// machine only slows it down.
std::optional<Measured> fastest_step(const std::string& output) {
  std::optional<Measured> measured;
  int lines = 0;
  for (const std::string_view line : split(output, '\n')) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || json.contains("done") || !json.contains("step_ms") ||
        !json["step_ms"].is_number())
      continue;
    Measured step{json["step_ms"].get<double>(), 0};
    if (json.contains("memory") && json["memory"].is_array() && !json["memory"].empty())
      step.peak_bytes = json["memory"][0].value("peak_bytes", 0.0);
    if (lines++ == 0) continue;
    if (!measured || step.step_ms < measured->step_ms) measured = step;
  }
  return measured;
}

}  // namespace

Result<Calibration> calibrate(const PlanRequest& request, bool quiet) {
  const TrainMachine here = train_machine();
  const bool on_gpu = here.gpus > 0;
  const bool plans_for_gpus = !is_virtual(request.machine.gpu);
  if (on_gpu != plans_for_gpus ||
      (on_gpu && gpu_kind_of(here.gpu_name, static_cast<double>(here.memory_bytes))->name !=
                     request.machine.gpu.name))
    return usage_error(
        fmt::format("--calibrate measures here, and the plan is for {}", request.machine.gpu.name),
        "leave --gpus out to plan for this machine, or --calibrate");
  auto program = TRY(trainer_program());

  PlanRequest trial = request;
  trial.target_batch = trial.tokens_per_update = std::nullopt;
  trial.workload.method = TrainingMethod::full;
  trial.workload.frozen.clear();
  trial.workload.extra_trained_parameters = 0;
  trial.workload.program = !on_gpu ? TrainingProgram::lockstep_cpu
                           : request.workload.format == NumberFormat::bf16
                               ? TrainingProgram::lockstep_fused
                               : TrainingProgram::lockstep_plain;
  Architecture& net = trial.workload.net;
  // A GPT of the same layers and channels.
  net.gated = false;
  net.feed_forward = 4 * net.hidden;
  net.key_value_heads = net.heads;
  if (net.hidden % net.heads != 0) net.heads = 1;
  net.head_width = net.hidden / net.heads;
  net.family = "gpt2";
  net.tied = net.biases = true;
  net.positions = trial.workload.sequence_length;
  net.counted_parameters = 0;
  const SearchResult found = search(trial, 1);
  if (!found.best)
    return Error{"--calibrate: not one sample of this model fits on one device here",
                 "plan without it, or calibrate with a smaller --model"};
  TrainingSetting setting = found.best->setting;
  constexpr std::int64_t kMostSamples = 32;
  setting.micro_batch = std::min(
      request.micro_batch.value_or(std::min<std::int64_t>(setting.micro_batch, on_gpu ? 16 : 4)),
      kMostSamples);
  setting.accumulation = 1;
  const Candidate predicted = evaluate(trial, setting);

  constexpr std::int64_t kSteps = 15;
  std::vector<std::string> words = {program,
                                    "--device",
                                    on_gpu ? "cuda" : "cpu",
                                    "--parallel",
                                    "single",
                                    "--devices",
                                    "1",
                                    "--model",
                                    "small",
                                    "--layers",
                                    std::to_string(net.layers),
                                    "--heads",
                                    std::to_string(net.heads),
                                    "--width",
                                    std::to_string(net.hidden),
                                    "--sequence-length",
                                    std::to_string(trial.workload.sequence_length),
                                    "--vocabulary",
                                    std::to_string(net.vocabulary),
                                    "--batch-size",
                                    std::to_string(setting.micro_batch),
                                    "--steps",
                                    std::to_string(kSteps),
                                    "--dataset-size",
                                    std::to_string(kSteps * setting.micro_batch),
                                    "--log-every",
                                    "3",
                                    "--log-format",
                                    "json",
                                    "--resume",
                                    "never",
                                    "--no-step-marks",
                                    "--workers",
                                    "1"};
  if (on_gpu)
    words.insert(words.end(),
                 {"--precision", request.workload.format == NumberFormat::bf16   ? "bf16"
                                 : request.workload.format == NumberFormat::fp16 ? "fp16"
                                 : request.workload.format == NumberFormat::tf32 ? "tf32"
                                                                                 : "fp32"});
  if (setting.checkpointing == Checkpointing::blocks)
    words.emplace_back("--activation-checkpointing");
  if (!quiet)
    say(fmt::format("lockstep: measuring {} steps of {} samples ...\n", kSteps,
                    setting.micro_batch));
  const OutputFile lines;
  auto trainer = TRY(Subprocess::start(words, ChildOutput::to_file, lines.descriptor()));
  const ChildEnd end = trainer.wait();
  const auto measured = fastest_step(lines.content());
  if (end.exit_code != 0 || !measured)
    return Error{fmt::format("--calibrate: lockstep-train ended with code {}", end.exit_code),
                 fmt::format("see what it says: {}", join(words, " "))};
  Calibration calibration;
  calibration.compute = measured->step_ms / predicted.time.step_ms();
  // States are known exactly; what depends on the batch is not.
  const double states = predicted.memory.weights_bytes + predicted.memory.gradients_bytes +
                        predicted.memory.optimizer_bytes;
  const double of_batch = predicted.memory.peak_bytes() - states;
  if (measured->peak_bytes > states && of_batch > 0)
    calibration.memory = std::clamp((measured->peak_bytes - states) / of_batch, 0.3, 3.0);
  if (!quiet)
    say(fmt::format(
        "lockstep: {:.1f} ms measured, {:.1f} predicted; {} at the peak, {} predicted\n",
        measured->step_ms, predicted.time.step_ms(), format_bytes(measured->peak_bytes),
        format_bytes(predicted.memory.peak_bytes())));
  return calibration;
}

}  // namespace lockstep
