// One way to run a workload on a machine, and the machine: what the search tries by the thousand.
#pragma once

#include <cstdint>

#include "model/footprint.hpp"
#include "model/gpu_kind.hpp"

namespace lockstep {

// In the order of preference: the simplest first.
enum class SplitStrategy : std::uint8_t {
  single,
  ddp,
  zero1,         // optimizer states divided
  zero2,         // and gradients
  fsdp,          // and weights
  hybrid_fsdp,   // FSDP within a node, DDP across
  hybrid_split,  // layers over a few GPUs, and each of these groups several times
  offload,       // FSDP with what rests in the host's memory
  model_split,   // layers over all GPUs, one at work at a time
};

struct PlannedMachine {
  GpuKind gpu;
  int gpus_a_node = 1;
  int nodes = 1;
  double link_bytes_s = 0;  // what a ring over the GPUs of a node reaches, one way
  // the same between nodes, of one node: rings cross it over all its adapters
  double network_bytes_s = 0;
  double host_memory_bytes = 0;
  int cores_a_node = 1;
  bool hides_communication = true;  // not where the cores that compute also carry the bytes

  int gpus() const { return gpus_a_node * nodes; }
};

struct TrainingSetting {
  SplitStrategy strategy = SplitStrategy::single;
  int gpus = 1;
  int group = 1;  // GPUs that hold one copy of the model together; gpus / group copies
  std::int64_t micro_batch = 1;  // samples a copy (a shard of FSDP counts as a copy) and pass
  std::int64_t accumulation = 1;
  Checkpointing checkpointing = Checkpointing::none;

  // That see different samples.
  int replicas() const {
    switch (strategy) {
      case SplitStrategy::single:
      case SplitStrategy::model_split: return 1;
      case SplitStrategy::hybrid_split: return gpus / group;
      default: return gpus;
    }
  }
  std::int64_t global_batch() const { return micro_batch * accumulation * replicas(); }
};

// Corrections from a measured step: 1 where nothing was measured.
struct Calibration {
  double compute = 1;
  double memory = 1;
};

}  // namespace lockstep
