// What a workload weighs, whatever machine it runs on: computed once, so that a candidate costs a
// few multiplications.
#pragma once

#include "model/workload.hpp"

namespace lockstep {

// How much of forward is computed again in backward.
enum class Checkpointing : std::uint8_t { none, blocks };

// Bytes and operations; all but the parameters' are for one token.
struct Footprint {
  double parameters = 0;  // of all nets
  double trained_parameters = 0;
  double weights_bytes = 0;       // as they are stored
  double forward_only_bytes = 0;  // of the weights: nets that have no backward
  double gradients_bytes = 0;
  double optimizer_bytes = 0;
  double casts_bytes = 0;  // half-precision copies of weights, while a pass runs
  // a second and a third gradient of a table that is used twice, while they are added
  double table_gradient_bytes = 0;
  double layer_bytes = 0;         // the largest layer, in the format that is computed in
  double largest_unit_bytes = 0;  // the largest of layers and tables, likewise
  bool keeps_gradients = false;   // zeroed, not freed, between steps
  bool keeps_casts = false;       // at all times, not only while a pass runs

  double kept_bytes = 0;  // for backward, without checkpointing
  double kept_when_checkpointed_bytes = 0;
  double one_layer_kept_bytes = 0;  // what a block that is computed again keeps
  double handed_on_bytes = 0;       // from one layer to the next
  double loss_bytes = 0;            // logits, their softmax and gradient at the peak
  double fixed_bytes = 0;           // whatever the batch: workspaces of libraries

  double forward_operations = 0;
  double backward_operations = 0;
  double forward_moved_bytes = 0;  // by everything that is no matrix product
  double backward_moved_bytes = 0;
  double recomputed_operations = 0;  // where blocks are computed again: all of forward but the loss
  double recomputed_moved_bytes = 0;
  // moved in a pass to turn 4-bit weights into numbers, whatever the batch
  double unpacked_bytes = 0;
  double update_moved_bytes = 0;  // in an update, whatever the batch
  double layers = 0;              // that kernels are started for
  double host_ms_a_layer = 0;     // until the host has started a layer's forward and backward
  double gap_ms_a_layer = 0;      // between kernels, on a GPU that is busy
};

Footprint footprint_of(const Workload& workload);
// The same for a setting: lockstep-train's own kernels keep what they need, so blocks that are
// computed twice are ATen's.
Footprint footprint_of(const Workload& workload, Checkpointing checkpointing);

// The bytes that forward keeps, for a channel and layer of one token, in half precision.
double kept_bytes_a_channel(const Architecture& net);

}  // namespace lockstep
