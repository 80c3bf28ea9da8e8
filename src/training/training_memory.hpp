// How much memory a device needs to train a net: an estimate, good enough to choose a batch that fits.
#pragma once

#include <cstdint>

#include "training/model_shapes.hpp"

namespace lockstep {

struct MemoryNeeds {
  double states_bytes = 0;      // weights, gradients, both moments of Adam
  double per_sample_bytes = 0;  // what forward keeps for backward
  double fixed_bytes = 0;       // context and communication buffers of a GPU
  double of_batch(std::int64_t samples) const { return states_bytes + fixed_bytes + per_sample_bytes * static_cast<double>(samples); }
};

struct MemoryOptions {
  bool half_precision = false;
  bool activation_checkpointing = false;
  bool on_gpu = false;
};
MemoryNeeds memory_needs(const ModelShape& shape, const MemoryOptions& options);

}  // namespace lockstep
