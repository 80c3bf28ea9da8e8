// How much memory one GPU needs, in parts.
#pragma once

#include "model/setting.hpp"

namespace lockstep {

struct MemoryParts {
  double weights_bytes = 0;
  double gradients_bytes = 0;
  double optimizer_bytes = 0;
  double activations_bytes = 0;  // that forward keeps
  double loss_bytes = 0;         // logits and what is made of them
  double working_bytes = 0;      // casts, gathered layers, tables' gradients, workspaces
  double buckets_bytes = 0;      // gradients once more, on their way
  // What a framework reports as its peak of allocations.
  double peak_bytes() const {
    return weights_bytes + gradients_bytes + optimizer_bytes + activations_bytes + loss_bytes +
           working_bytes + buckets_bytes;
  }

  double slack_bytes = 0;    // pieces that the allocator cannot use
  double context_bytes = 0;  // the driver's, the libraries' and NCCL's own
  double total_bytes() const { return peak_bytes() + slack_bytes + context_bytes; }
};

MemoryParts memory_of(const Footprint& footprint, const TrainingSetting& setting,
                      std::int64_t sequence_length, const PlannedMachine& machine,
                      const Calibration& calibration = {});

// Of a GPU of so much memory: what is left for a batch beside states, context and slack.
double room_for_batches(double states_bytes, double total_bytes);

// What may be used of a GPU.
double usable_memory(const GpuKind& gpu);

}  // namespace lockstep
