#include "reference_trainer/run_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/text.hpp"
#include "reference_trainer/compute_device.hpp"
#include "reference_trainer/cuda/cuda_part.hpp"
#include "reference_trainer/failure.hpp"

namespace lockstep {
namespace {

c10::DeviceType device_type(const std::string& wanted) {
  if (wanted == "cpu") return c10::DeviceType::CPU;
  const int gpus = cuda_device_count();
  if (gpus > 0) return c10::DeviceType::CUDA;
  if (wanted == "cuda")
    throw TrainFailure(fmt::format("no CUDA device: {}",
                                   why_no_cuda().empty() ? "the driver shows none" : why_no_cuda()),
                       "use --device cpu, or see `lockstep doctor`");
  return c10::DeviceType::CPU;
}

void decide_parallel(TrainSettings& settings, const RankFacts& facts) {
  if (settings.parallel == "auto") settings.parallel = facts.world > 1 ? "ddp" : "single";
  const bool of_many_ranks = settings.parallel == "ddp" || settings.parallel == "hybrid";
  if (facts.world > 1 && !of_many_ranks)
    throw TrainFailure::on_all_ranks(
        usage_error(fmt::format("--parallel {} is for one process, and {} started {} ranks: each "
                                "would train a model of its own",
                                settings.parallel, facts.launcher, facts.world),
                    "use --parallel ddp, or start one process"));
}

// Settings that exclude each other, or the ranks that were started.
void refuse_contradictions(const TrainSettings& settings, const RankFacts& facts, bool on_cuda,
                           int there_are) {
  const std::int64_t group = settings.parallel == "hybrid" ? settings.split : 1;
  const std::int64_t wanted = (settings.devices + group - 1) / group;
  if ((settings.parallel == "ddp" || settings.parallel == "hybrid") && settings.devices > 0 &&
      wanted != facts.local_world && !settings.share_devices)
    throw TrainFailure::on_all_ranks(
        usage_error(fmt::format("--parallel {} on {} devices is {} processes, and there {} {}",
                                settings.parallel, settings.devices, wanted,
                                facts.local_world == 1 ? "is" : "are", facts.local_world),
                    fmt::format("lockstep launch --standalone --nproc-per-node {} --no-python "
                                "lockstep-train ..., or `lockstep train`, which does it",
                                wanted)));
  const auto refuse = [](const char* what, const char* next) {
    throw TrainFailure::on_all_ranks(usage_error(what, next));
  };
  if (settings.fault == "unsynchronised" && facts.world > 1)
    refuse(
        "--fault unsynchronised is two programs that know nothing of each other, and a launcher "
        "started these",
        "CUDA_VISIBLE_DEVICES=0 lockstep-train ... & CUDA_VISIBLE_DEVICES=1 lockstep-train ... &");
  if (settings.share_devices && settings.parallel != "ddp")
    refuse("--share-devices is for the ranks of --parallel ddp", "leave it out");
  if (settings.save_every > 0 && settings.checkpoint_dir.empty())
    refuse("--save-every without --checkpoint-dir saves nothing",
           "say where: --checkpoint-dir checkpoints");
  // The search for unused parameters walks one graph; a split model has one a piece, a recomputed
  // block one of its own.
  if (settings.find_unused && settings.parallel == "hybrid")
    refuse("--find-unused cannot see through the pieces of a hybrid",
           "leave it out: every parameter of this model is used");
  if (settings.find_unused && settings.activation_checkpointing)
    refuse("--find-unused cannot see into blocks that are computed twice", "leave one of them out");
  if (settings.parallel == "data-parallel" && settings.dropout > 0 &&
      settings.activation_checkpointing && !on_cuda)
    refuse(
        "data-parallel with dropout and --activation-checkpointing: on the CPU all copies draw "
        "from one row of random numbers, and a block computed again would drop others",
        "leave one of the three out, or use --parallel ddp");
  if (settings.parallel == "hybrid" && on_cuda && there_are % settings.split != 0)
    refuse("hybrid groups on GPUs must be equal",
           "choose --split or --devices so that one divides the other");
}

// Before 2.30.3 NCCL refuses two ranks on one GPU; later it takes them where it is told to.
bool nccl_takes_many_ranks_a_gpu() {
  constexpr int kFirst = 23003;
  const char* const told = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return told != nullptr && std::string_view(told) == "1" && cuda_part()->nccl_version() >= kFirst;
}

GroupOptions group_options(const TrainSettings& settings, const RankFacts& facts, bool on_cuda,
                           int gpus) {
  GroupOptions options{
      .backend = settings.backend,
      .timeout = std::chrono::duration_cast<std::chrono::milliseconds>(settings.timeout),
      .even_alone = settings.parallel == "ddp"};
  const bool shared = on_cuda && facts.local_world > gpus && !nccl_takes_many_ranks_a_gpu();
  if (options.backend == "auto") options.backend = on_cuda && !shared ? "nccl" : "gloo";
  if (options.backend == "nccl" && !on_cuda)
    throw TrainFailure::on_all_ranks(
        usage_error("--backend nccl is for GPUs, and this run is on the CPU",
                    "leave it out, or use --device cuda"));
  if (options.backend == "nccl" && shared)
    throw TrainFailure::on_all_ranks(usage_error(
        fmt::format("NCCL wants a GPU for each of {} ranks, and there {} {}", facts.local_world,
                    gpus == 1 ? "is" : "are", gpus),
        "use --backend gloo; NCCL 2.30.3 and newer can with NCCL_MULTI_RANK_GPU_ENABLE=1"));
  return options;
}

// CUDA_VISIBLE_DEVICES for virtual GPUs, as CUDA has it for real ones. Empty: all may be used.
std::vector<int> visible_virtual_gpus() {
  const char* const text = std::getenv("CUDA_VISIBLE_DEVICES");
  std::vector<int> list;
  for (const std::string_view word : split(text != nullptr ? text : "", ',')) {
    const auto index = parse_integer(word);
    if (!index || *index < 0 || *index > 255) return {};
    list.push_back(static_cast<int>(*index));
  }
  return list;
}

std::vector<int> devices_of(const TrainSettings& settings, const RankFacts& facts, int there_are) {
  std::vector<int> devices;
  const auto add = [&](int from, int to) {
    for (int device = from; device < to; ++device) devices.push_back(device);
  };
  if (settings.parallel == "naive" || settings.parallel == "data-parallel")
    add(0, there_are);
  else if (settings.parallel == "hybrid")
    add(facts.local_rank * static_cast<int>(settings.split),
        std::min(there_are, (facts.local_rank + 1) * static_cast<int>(settings.split)));
  else if (settings.share_devices)
    add(facts.local_rank % there_are, facts.local_rank % there_are + 1);
  else
    add(facts.local_rank, facts.local_rank + 1);
  return devices;
}

}  // namespace

RunPlan plan_run(TrainSettings& settings, const RankFacts& facts) {
  RunPlan plan;
  plan.shape = or_fail(shape_of(settings));
  decide_parallel(settings, facts);
  plan.device = device_type(settings.device);
  const bool on_cuda = plan.device == c10::DeviceType::CUDA;
  const int gpus = on_cuda ? cuda_device_count() : 0;
  const std::vector<int> visible = on_cuda ? std::vector<int>{} : visible_virtual_gpus();
  // Virtual GPUs may be more than cores: they take turns there, which is slow and right.
  const int there_are = settings.devices > 0 ? static_cast<int>(settings.devices)
                        : on_cuda            ? gpus
                        : visible.empty()    ? std::max(cores_of_this_process(), facts.local_world)
                                             : static_cast<int>(visible.size());
  if (on_cuda && there_are > gpus)
    throw TrainFailure(
        usage_error(fmt::format("--devices {}, but this machine has {} GPUs", there_are, gpus),
                    fmt::format("use --devices {}, or --device cpu", gpus)));
  refuse_contradictions(settings, facts, on_cuda, there_are);
  plan.devices = devices_of(settings, facts, there_are);
  if (plan.devices.empty() || (on_cuda && plan.devices.back() >= gpus))
    throw TrainFailure(
        usage_error(fmt::format("local rank {} has no device: this machine has {}",
                                facts.local_rank, there_are),
                    settings.parallel == "hybrid"
                        ? fmt::format("start {} ranks here: {} devices in groups of {}",
                                      (there_are + settings.split - 1) / settings.split, there_are,
                                      settings.split)
                        : fmt::format("start at most {} ranks on this machine", there_are)));
  for (int& device : plan.devices)
    if (static_cast<std::size_t>(device) < visible.size())
      device = visible[static_cast<std::size_t>(device)];
  const bool copies_in_process = settings.parallel == "data-parallel";
  const std::int64_t replicas =
      copies_in_process ? static_cast<std::int64_t>(plan.devices.size()) : facts.world;
  plan.all_devices = static_cast<int>(plan.devices.size()) * facts.world;
  plan.precision = precision_named(settings.precision, on_cuda);
  plan.group = group_options(settings, facts, on_cuda, gpus);
  plan.batch = or_fail(plan_batch(settings, plan.shape, replicas));
  plan.samples_per_pass = settings.batch_size * (copies_in_process ? replicas : 1);
  return plan;
}

}  // namespace lockstep
