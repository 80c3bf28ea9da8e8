// Matrix products by cuBLASLt, with what follows a product done on its way out: a bias, a sum, GELU
// or GELU's slope. The first product of a shape tries the library's proposals and keeps the
// fastest.
#pragma once

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "reference_trainer/cuda/kernels/kernels.hpp"

namespace lockstep {

// out = a b: rows x columns, with `depth` between them. Matrices lie row by row.
struct Product {
  using Half = kernels::Half;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  const Half* a = nullptr;
  const Half* b = nullptr;
  bool a_is_turned = false;  // a lies as depth x rows
  bool b_is_turned = false;  // b lies as columns x depth
  void* out = nullptr;
  bool out_is_float = false;

  // On the way out; not all together.
  const Half* bias = nullptr;           // a number a column, added
  const Half* added = nullptr;          // as large as out
  Half* before_gelu = nullptr;          // written: what out is the GELU of; with a bias only
  const Half* slope_of_gelu = nullptr;  // out is multiplied with GELU's slope there
  const float* factor = nullptr;  // in the GPU's memory: out is multiplied with it; alone only
};

class Matmul {
 public:
  static constexpr std::size_t kWorkspaceBytes = std::size_t{64} << 20U;
  // `workspace`: kWorkspaceBytes of the GPU's memory; `zero`: a float there that is 0.
  Matmul(void* workspace, const float* zero);
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  // Throws std::runtime_error where cuBLASLt has nothing for it.
  void operator()(const Product& product, cudaStream_t stream);

 private:
  struct Plan;
  using Shape = std::array<std::int64_t, 4>;  // rows, columns, depth, flags
  Plan& plan_for(const Product& product, cudaStream_t stream);
  cublasLtMatmulAlgo_t fastest(const Plan& plan, const std::vector<cublasLtMatmulAlgo_t>& proposals,
                               const Product& product, cudaStream_t stream);
  void run(const Plan& plan, const cublasLtMatmulAlgo_t& algorithm, const Product& product,
           cudaStream_t stream);

  cublasLtHandle_t handle_ = nullptr;
  void* workspace_;
  const float* zero_;
  std::map<Shape, std::unique_ptr<Plan>> plans_;
};

}  // namespace lockstep
