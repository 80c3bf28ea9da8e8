#include "model/time_model.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep {
namespace {

constexpr double kMemorySpeedReached = 0.87;       // of the data sheet's, by kernels that stream
constexpr double kBucketBytes = 25 * 1024 * 1024;  // DDP's default
constexpr double kCollectiveMs = 0.05;             // to start one, a bucket each
// of what runs beside compute: both want memory and multiprocessors
constexpr double kHiddenAtBest = 0.9;
// of compute, for each doubling of ranks: published DDP runs reach 1.9 of 2 and 7.5 of 8
constexpr double kUnevenShare = 0.012;
// the same for cores that stand for GPUs: they share caches and memory; 1.0 to 1.2 seen for two
// (scripts/bench plan)
constexpr double kCoresShareMemory = 0.05;
// of the host's time for a layer: seen with torch.utils.checkpoint, 4.7 ms for 1.4
constexpr double kHostWhenCheckpointed = 3.3;
// of large_product_share: 0.43 of the peak, seen on an H200
constexpr double kTf32Reached = 0.63;
// of a node's processors, by an optimizer that streams
constexpr double kHostMemoryBytesS = 1e11;
constexpr double kHostLinkReached = 0.8;  // of PCIe, by large pinned copies

double compute_speed(const GpuKind& gpu, NumberFormat format) {
  switch (format) {
    case NumberFormat::bf16:
      return (gpu.has_bf16 ? gpu.half_tflops : gpu.single_tflops) * 1e12 * gpu.large_product_share;
    case NumberFormat::fp16: return gpu.half_tflops * 1e12 * gpu.large_product_share;
    case NumberFormat::tf32: return gpu.tf32_tflops * 1e12 * gpu.large_product_share * kTf32Reached;
    case NumberFormat::fp32:
      return gpu.single_tflops * 1e12 * std::min(0.9, gpu.large_product_share + 0.1);
  }
  return 1;
}

// One pass of one copy on one GPU.
struct PassTime {
  double forward_ms = 0;
  double backward_ms = 0;
  bool host_bound = false;
  double spare_ms = 0;  // in which the GPU waits for the host
  double total_ms() const { return forward_ms + backward_ms; }
};
PassTime pass_of(const Footprint& footprint, double tokens, Checkpointing checkpointing,
                 NumberFormat format, const GpuKind& gpu, double correction) {
  const double again = checkpointing == Checkpointing::none ? 0 : 1;
  const double speed = compute_speed(gpu, format);
  const double memory = kMemorySpeedReached * gpu.memory_bytes_s;
  const auto milliseconds = [&](double operations, double moved, double layers_share) {
    return 1e3 * tokens * (operations / speed + moved / memory) +
           layers_share * footprint.layers * footprint.gap_ms_a_layer;
  };
  // weights in 4 bits, once in each direction
  const double unpacked_ms = 1e3 * footprint.unpacked_bytes / memory / 2;
  PassTime pass;
  pass.forward_ms =
      correction * (unpacked_ms + milliseconds(footprint.forward_operations,
                                               footprint.forward_moved_bytes, 1.0 / 3));
  pass.backward_ms =
      correction *
      (unpacked_ms +
       milliseconds(footprint.backward_operations + again * footprint.recomputed_operations,
                    footprint.backward_moved_bytes + again * footprint.recomputed_moved_bytes,
                    2.0 / 3 + again / 3));
  const double host_ms =
      footprint.layers * footprint.host_ms_a_layer * (again > 0 ? kHostWhenCheckpointed : 1);
  if (const double pass_ms = pass.total_ms(); host_ms > pass_ms) {
    pass.forward_ms = host_ms / 3;
    pass.backward_ms = 2 * host_ms / 3;
    pass.host_bound = true;
    pass.spare_ms = host_ms - pass_ms;
  }
  return pass;
}

double ring(int members) { return members > 1 ? static_cast<double>(members - 1) / members : 0; }

struct Speeds {
  double near = 0;  // within a node
  double far = 0;   // between nodes
};

double milliseconds_for(double bytes, double bytes_s) {
  return bytes_s > 0 ? 1e3 * bytes / bytes_s : 0;
}

double milliseconds_for(const Traffic& traffic, const Speeds& speeds) {
  return milliseconds_for(traffic.near_bytes, speeds.near) +
         milliseconds_for(traffic.far_bytes, std::min(speeds.near, speeds.far));
}

}  // namespace

double exposed_by_ddp(double communication_ms, double backward_ms, double bucket_share) {
  const double hidden =
      std::min(communication_ms * (1 - bucket_share), kHiddenAtBest * backward_ms);
  return communication_ms - hidden;
}

Traffic traffic_of(const Footprint& footprint, const TrainingSetting& setting, int gpus_a_node) {
  const double passes = static_cast<double>(setting.accumulation);
  const int groups = setting.gpus / setting.group;
  // A ring over several nodes is as fast as what joins them; all its bytes pass there once.
  const auto ring_of = [&](int members, double bytes) {
    return members > gpus_a_node ? Traffic{0, bytes} : Traffic{bytes, 0};
  };
  switch (setting.strategy) {
    case SplitStrategy::single:
    case SplitStrategy::model_split: return {};
    case SplitStrategy::ddp:
    case SplitStrategy::zero1:
    case SplitStrategy::zero2:
      return ring_of(setting.gpus, 2 * ring(setting.gpus) * footprint.gradients_bytes);
    case SplitStrategy::fsdp:
    case SplitStrategy::offload:
    case SplitStrategy::hybrid_fsdp: {
      // Weights are gathered in the format that is computed in, for forward and, where there is
      // one, for backward of each pass.
      const double gathered =
          footprint.casts_bytes > 0
              ? footprint.casts_bytes + (footprint.weights_bytes - 2 * footprint.casts_bytes)
              : footprint.weights_bytes;
      Traffic traffic =
          ring_of(setting.group,
                  ring(setting.group) * (passes * (2 * gathered - footprint.forward_only_bytes) +
                                         footprint.gradients_bytes));
      // Each GPU averages its share with its fellows in the other nodes: all of them together the
      // whole.
      traffic.far_bytes += 2 * ring(groups) * footprint.gradients_bytes;
      return traffic;
    }
    case SplitStrategy::hybrid_split: {
      const double gradients = 2 * ring(groups) * footprint.gradients_bytes;
      return setting.gpus > gpus_a_node ? Traffic{0, gradients}
                                        : Traffic{gradients / setting.group, 0};
    }
  }
  return {};
}

StepTime time_of(const Footprint& footprint, const TrainingSetting& setting,
                 std::int64_t sequence_length, NumberFormat format, const PlannedMachine& machine,
                 const Calibration& calibration) {
  const double tokens = static_cast<double>(setting.micro_batch * sequence_length);
  const double passes = static_cast<double>(setting.accumulation);
  const Speeds speeds{machine.link_bytes_s, machine.network_bytes_s};
  const Traffic traffic = traffic_of(footprint, setting, machine.gpus_a_node);
  PassTime pass =
      pass_of(footprint, tokens, setting.checkpointing, format, machine.gpu, calibration.compute);
  StepTime time;
  time.host_bound = pass.host_bound;
  double updated = 1;  // share of the parameters that one GPU updates
  double last_bucket = 1;
  switch (setting.strategy) {
    case SplitStrategy::single: time.compute_ms = passes * pass.total_ms(); break;
    case SplitStrategy::ddp:
    case SplitStrategy::zero1:
    case SplitStrategy::zero2: {
      time.compute_ms = passes * pass.total_ms();
      const double buckets = std::max(1.0, std::ceil(footprint.gradients_bytes / kBucketBytes));
      time.communication_ms = milliseconds_for(traffic, speeds) + buckets * kCollectiveMs;
      last_bucket = 1 / buckets;
      // ZeRO gathers the new weights after the update, where nothing hides it.
      const double hideable = setting.strategy == SplitStrategy::ddp ? 1 : 0.5;
      time.exposed_ms =
          exposed_by_ddp(hideable * time.communication_ms, pass.backward_ms, last_bucket) +
          (1 - hideable) * time.communication_ms;
      if (setting.strategy != SplitStrategy::ddp) updated = 1.0 / setting.gpus;
      break;
    }
    case SplitStrategy::fsdp:
    case SplitStrategy::offload:
    case SplitStrategy::hybrid_fsdp: {
      time.compute_ms = passes * pass.total_ms();
      time.communication_ms =
          milliseconds_for(traffic, speeds) + 3 * passes * footprint.layers * kCollectiveMs;
      // A layer is gathered while the one before it is computed; the first of each direction has
      // nothing to hide behind.
      const double first_share = 1 / std::max(1.0, footprint.layers);
      const double hidden =
          std::min(time.communication_ms * (1 - first_share), kHiddenAtBest * time.compute_ms);
      time.exposed_ms = time.communication_ms - hidden;
      updated = 1.0 / setting.group;
      if (setting.strategy == SplitStrategy::offload) {
        // Weights come over PCIe for each pass, gradients go back; the host updates at the speed of
        // its memory.
        const double host_link = kHostLinkReached * machine.gpu.pcie_bytes_s;
        const double over_pcie = milliseconds_for(
            (2 * passes * footprint.weights_bytes / 2 + footprint.gradients_bytes) / setting.group,
            host_link);
        const int nodes = (setting.gpus + machine.gpus_a_node - 1) / machine.gpus_a_node;
        const double on_host = 1e3 * footprint.update_moved_bytes / nodes / kHostMemoryBytesS;
        time.exposed_ms += over_pcie + on_host;
        time.communication_ms += over_pcie;
        updated = 0;
      }
      break;
    }
    case SplitStrategy::hybrid_split:
    case SplitStrategy::model_split: {
      // Stages take turns. A stage that several GPUs hold divides its samples among them: with 3
      // GPUs and two stages the first stage has two, and half of its time.
      const int stages = setting.group;
      double of_one = 0;  // of the time of a copy alone
      for (int stage = 0; stage < stages; ++stage) {
        const int holders = setting.strategy == SplitStrategy::model_split
                                ? 1
                                : setting.gpus / stages + (stage < setting.gpus % stages ? 1 : 0);
        of_one += 1.0 / stages / holders * setting.replicas();
      }
      time.compute_ms = passes * pass.total_ms() * of_one;
      // Hidden states go from stage to stage, and their gradients back.
      const double between =
          2 * (stages - 1) *
          (milliseconds_for(tokens * footprint.handed_on_bytes, speeds.near) + kCollectiveMs);
      time.communication_ms = milliseconds_for(traffic, speeds) + passes * between;
      time.exposed_ms = setting.replicas() > 1
                            ? exposed_by_ddp(time.communication_ms, pass.backward_ms, 0.1)
                            : time.communication_ms;
      updated = 1.0 / stages;
      break;
    }
  }
  if (!machine.hides_communication) time.exposed_ms = time.communication_ms;
  time.optimizer_ms = calibration.compute * 1e3 * updated * footprint.update_moved_bytes /
                      (kMemorySpeedReached * machine.gpu.memory_bytes_s);
  time.optimizer_ms = std::max(0.0, time.optimizer_ms - passes * pass.spare_ms);
  if (setting.replicas() > 1)
    time.uneven_ms = (is_virtual(machine.gpu) ? kCoresShareMemory : kUnevenShare) *
                     std::log2(setting.replicas()) * time.compute_ms;
  return time;
}

}  // namespace lockstep
