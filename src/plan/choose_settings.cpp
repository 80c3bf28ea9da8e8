#include "plan/choose_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lockstep {
namespace {

constexpr double kMegabyte = 1024 * 1024;

int workers_of(const PlannedMachine& machine) {
  return std::clamp(machine.cores_a_node / std::max(1, machine.gpus_a_node) - 1, 1, 8);
}

// A few buckets, so that the first leaves while backward runs; larger ones where the link is slow
// to start.
double bucket_mb(double gradients_bytes, bool far) {
  const double megabytes = gradients_bytes / kMegabyte;
  if (megabytes < 100) return std::max(1.0, std::round(megabytes / 4));
  return far ? 100 : 25;
}

// Threads of one rank: half of its cores, the others are its loader's workers'.
int threads_of(int cores, int ranks) { return std::max(1, cores / std::max(1, ranks) / 2); }
constexpr const char* kThreadsReason =
    "ranks share the cores, half for computing and half for workers; torchrun would set 1";

}  // namespace

std::vector<LaunchAdvice> planned_launch(int cores, int ranks) {
  const int threads = threads_of(cores, ranks);
  if (ranks < 2 || threads < 2) return {};  // 1 is what launch sets anyway
  return {{LaunchAdvice::Kind::set_variable, "OMP_NUM_THREADS", std::to_string(threads),
           kThreadsReason}};
}

std::vector<PlannedSetting> choose_settings(const PlanRequest& request, const PlannedWay& way) {
  const PlannedMachine& machine = request.machine;
  const bool on_gpu = !is_virtual(machine.gpu);
  const double gradients = 4 * footprint_of(request.workload).trained_parameters;
  std::vector<PlannedSetting> settings;
  const auto add = [&](std::string name, std::string value, std::string reason) {
    settings.push_back({std::move(name), std::move(value), std::move(reason)});
  };
  switch (request.workload.format) {
    case NumberFormat::bf16:
      add("precision", "bf16", "tensor cores, with fp32's range: no loss scaling");
      break;
    case NumberFormat::fp16:
      add("precision", "fp16", "tensor cores for fp16 alone; needs loss scaling");
      break;
    case NumberFormat::tf32:
      add("precision", "tf32", "fp32 tensors, tensor cores for the products");
      break;
    case NumberFormat::fp32:
      add("precision", "fp32",
          on_gpu ? "asked for; tensor cores rest" : "cores have no matrix units for less");
      break;
  }
  if (on_gpu && machine.gpu.tf32_tflops > machine.gpu.single_tflops &&
      request.workload.format != NumberFormat::fp32)
    add("tf32", "on", "what stays in fp32 multiplies on tensor cores");
  if (on_gpu && machine.gpu.has_bf16)
    add("attention", "sdpa",
        "flash attention: no memory that grows with the square of the sequence");
  if (on_gpu)
    add("optimizer",
        request.workload.optimizer == OptimizerKind::adamw_8bit ? "adamw_bnb_8bit"
                                                                : "adamw_torch_fused",
        request.workload.optimizer == OptimizerKind::adamw_8bit
            ? "2 bytes a parameter instead of 8"
            : "one kernel for all parameters instead of several for each");
  add("workers", std::to_string(workers_of(machine)),
      fmt::format("{} cores for {} {}, one of them each rank's own", machine.cores_a_node,
                  machine.gpus_a_node, machine.gpus_a_node == 1 ? "GPU" : "GPUs"));
  if (on_gpu) add("pin_memory", "true", "batches are copied while the GPU works");
  if (way.activation_checkpointing)
    add("activation_checkpointing", "true",
        "blocks are computed again in backward: a third more compute, a fraction of the memory");
  if (way.replicas > 1 && (way.strategy == "ddp" || way.strategy == "hybrid-split")) {
    add("bucket_mb", fmt::format("{:g}", bucket_mb(gradients, way.nodes > 1)),
        fmt::format(
            "{:.0f} MB of gradients in buckets, so that the first leaves while backward runs",
            gradients / kMegabyte));
    add("gradient_as_bucket_view", "true",
        fmt::format("gradients live in their buckets: {:.1f} GB less", gradients / 1e9));
  }
  if (way.accumulation > 1 && way.replicas > 1)
    add("no_sync", "true",
        fmt::format("gradients travel once an update instead of {} times", way.accumulation));
  if (way.strategy == "fsdp" || way.strategy == "hybrid-fsdp" || way.strategy == "offload")
    add("wrap", "transformer blocks", "a block is gathered while the one before it is computed");
  if (on_gpu && way.memory_bytes > 0.85 * way.memory_limit_bytes)
    add("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True",
        fmt::format("{:.0f} % of memory is planned for: no room for pieces that fit nowhere",
                    100 * way.memory_bytes / way.memory_limit_bytes));
  if (way.gpus > 1)
    add("OMP_NUM_THREADS", std::to_string(threads_of(machine.cores_a_node, machine.gpus_a_node)),
        kThreadsReason);
  // NCCL finds its way by itself; only what it cannot know is said.
  if (way.nodes > 1 && machine.network_bytes_s < 5e9)
    add("NCCL_SOCKET_IFNAME", "the fast interface's name",
        "several nodes over Ethernet: NCCL may take the wrong interface");
  if (way.nodes > 1)
    add("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1",
        "a node that is lost ends the job instead of a wait of 30 minutes");
  return settings;
}

std::string setting_of(const Plan& plan, const std::string& name) {
  const auto found = std::ranges::find_if(
      plan.settings, [&](const PlannedSetting& setting) { return setting.name == name; });
  return found == plan.settings.end() ? "" : found->value;
}

}  // namespace lockstep
