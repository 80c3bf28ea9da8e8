// AdamW over all parameters of a GPU in a few launches: the gradient's length, and the update in
// one. Everything that changes from update to update lies in the GPU's memory; the host waits for
// nothing.
#pragma once

#include "reference_trainer/cuda/cuda_part.hpp"

namespace lockstep {

std::unique_ptr<FusedUpdate> make_fused_adamw(at::Device device);

}  // namespace lockstep
