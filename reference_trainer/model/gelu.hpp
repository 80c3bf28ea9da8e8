// GELU as GPT-2 has it (the tanh form), fast on the CPU too.
//
// 0.5 x (1 + tanh(u)) is x sigmoid(2u). ATen computes the left side, with a tanh that is 10 times
// slower than its sigmoid on aarch64 (torch 2.11, a million numbers on one core: 31 ms against 3.4
// ms): a quarter of a small GPT's whole step.
#pragma once

#include "reference_trainer/torch_headers.hpp"

namespace lockstep {

// at::gelu(x, "tanh"), to the last digit or two of fp32. Other devices and types go to ATen.
Tensor tanh_gelu(const Tensor& x);

}  // namespace lockstep
