// Whether a matrix product's kernel uses tensor cores, by its name.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

enum class MatmulKind : std::uint8_t { none, plain, tensor_cores };

// cuBLAS, cuDNN and CUTLASS name kernels after the instructions they are made of. `none`: no
// product, or none of theirs.
MatmulKind matmul_kind(std::string_view kernel);

}  // namespace lockstep
