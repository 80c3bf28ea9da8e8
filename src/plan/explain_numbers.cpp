#include "plan/explain_numbers.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace lockstep {
namespace {

std::string travels(const Traffic& traffic, const PlannedMachine& machine) {
  std::string words;
  if (traffic.near_bytes > 0)
    words = fmt::format("{} sent by each GPU at {:.0f} GB/s", format_bytes(traffic.near_bytes),
                        machine.link_bytes_s / 1e9);
  if (traffic.far_bytes > 0)
    words += fmt::format("{}{} between nodes at {:.3g} GB/s", words.empty() ? "" : ", ",
                         format_bytes(traffic.far_bytes),
                         std::min(machine.link_bytes_s, machine.network_bytes_s) / 1e9);
  return words + ", and starting each collective";
}

}  // namespace

std::vector<ExplainedNumber> explain_numbers(const PlanRequest& request, const Footprint& footprint,
                                             const Candidate& chosen, const Plan& plan) {
  const TrainingSetting& setting = chosen.setting;
  const MemoryParts& memory = chosen.memory;
  const StepTime& time = chosen.time;
  const GpuKind& gpu = request.machine.gpu;
  const double tokens = static_cast<double>(setting.micro_batch * request.workload.sequence_length);
  const bool full = request.workload.method == TrainingMethod::full;
  const std::string divided =
      setting.group > 1
          ? fmt::format(", divided by {} where the strategy divides it", setting.group)
          : "";
  const double kept = setting.checkpointing == Checkpointing::none
                          ? footprint.kept_bytes
                          : footprint.kept_when_checkpointed_bytes;
  std::vector<ExplainedNumber> numbers;
  const auto add = [&](std::string name, double value, std::string unit, std::string formula) {
    numbers.push_back({std::move(name), value, std::move(unit), std::move(formula)});
  };
  add("weights", memory.weights_bytes, "bytes",
      full ? fmt::format("4 bytes x {:.4g} parameters (fp32 masters){}", footprint.parameters,
                         divided)
           : fmt::format("{:.2f} bytes x {:.4g} parameters, most of which rest{}",
                         footprint.weights_bytes / footprint.parameters, footprint.parameters,
                         divided));
  add("gradients", memory.gradients_bytes, "bytes",
      memory.gradients_bytes > 0 ? fmt::format("4 bytes x {:.4g} trained parameters{}",
                                               footprint.trained_parameters, divided)
                                 : "freed after the update, so not there at the peak");
  add("optimizer", memory.optimizer_bytes, "bytes",
      fmt::format("{:.0f} bytes x {:.4g} trained parameters{}",
                  footprint.trained_parameters > 0
                      ? footprint.optimizer_bytes / footprint.trained_parameters
                      : 0,
                  footprint.trained_parameters, divided));
  add("activations", memory.activations_bytes, "bytes",
      fmt::format("{:.4g} bytes a token (all layers) x {:.0f} tokens a pass{}", kept, tokens,
                  setting.checkpointing == Checkpointing::none ? "" : ", blocks computed again"));
  add("logits and loss", memory.loss_bytes, "bytes",
      memory.loss_bytes > 0
          ? fmt::format("{:.1f} bytes x {} words x {:.0f} tokens",
                        footprint.loss_bytes / static_cast<double>(request.workload.net.vocabulary),
                        request.workload.net.vocabulary, tokens)
          : "gone at the peak, which is after backward");
  add("casts, gathered layers, workspaces", memory.working_bytes, "bytes",
      "half-precision copies of weights while a pass runs; with FSDP two layers and the largest "
      "unit");
  add("buckets", memory.buckets_bytes, "bytes",
      memory.buckets_bytes > 0 ? "gradients once more; gradient_as_bucket_view=True takes this away"
                               : "none");
  add("allocator's slack", memory.slack_bytes, "bytes",
      "6 % of what comes and goes, 1 % of what stays");
  add("CUDA, libraries, NCCL", memory.context_bytes, "bytes",
      "0.8 GB of context and libraries (seen on an H200), 0.6 GB of NCCL where ranks talk");
  const double operations =
      footprint.forward_operations + footprint.backward_operations +
      (setting.checkpointing == Checkpointing::none ? 0 : footprint.forward_operations);
  add("operations a token", operations, "FLOP",
      fmt::format("{} a weight that multiplies, 12 a layer, channel and position of attention",
                  full ? "6" : "4") +
          (setting.checkpointing == Checkpointing::none ? "" : ", forward twice"));
  add("compute", time.compute_ms, "ms",
      time.host_bound
          ? fmt::format("{:.0f} layers x {:.2f} ms until the host has started them, x {} passes: "
                        "the GPU waits for the host",
                        footprint.layers, footprint.host_ms_a_layer, setting.accumulation)
          : fmt::format("{:.0f} tokens x ({:.3g} FLOP / {:.0f} TFLOP/s + {:.3g} bytes / {:.0f} "
                        "GB/s) x {} passes, and gaps between kernels",
                        tokens, operations, gpu.half_tflops * gpu.large_product_share,
                        footprint.forward_moved_bytes + footprint.backward_moved_bytes,
                        gpu.memory_bytes_s / 1e9, setting.accumulation));
  add("optimizer's time", time.optimizer_ms, "ms",
      fmt::format("50 bytes x {:.4g} parameters through memory", footprint.trained_parameters));
  add("communication", time.communication_ms, "ms",
      time.communication_ms > 0
          ? travels(traffic_of(footprint, setting, request.machine.gpus_a_node), request.machine)
          : "none");
  add("exposed", time.exposed_ms, "ms",
      "what is longer than 0.9 of the backward (FSDP: of the compute) it runs beside, and the last "
      "bucket");
  add("uneven ranks", time.uneven_ms, "ms", "1.2 % of compute for each doubling of ranks");
  add("step", time.step_ms(), "ms", "compute + optimizer + exposed + uneven ranks");
  add("tokens a second", plan.choice.tokens_s, "tokens/s",
      fmt::format("{} samples x {} tokens / step", plan.choice.global_batch,
                  request.workload.sequence_length));
  if (request.calibration.compute != 1 || request.calibration.memory != 1)
    add("measured against predicted", request.calibration.compute, "times the compute",
        fmt::format("--calibrate: {:.3f} of the predicted time, {:.3f} of what depends on the "
                    "batch in memory",
                    request.calibration.compute, request.calibration.memory));
  return numbers;
}

}  // namespace lockstep
