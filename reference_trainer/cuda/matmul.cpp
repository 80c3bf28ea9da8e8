#include "reference_trainer/cuda/matmul.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep {
namespace {

constexpr int kProposals = 24;
constexpr int kFirstRuns = 3;
constexpr std::size_t kFinalists = 4;
constexpr int kFinalRounds = 4;

void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(std::string("cuBLASLt: ") + what + ": " +
                             cublasLtGetStatusString(status));
}

template <class Value>
void set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute,
         const Value& value) {
  check(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof value), "attribute");
}

cublasLtEpilogue_t epilogue_of(const Product& product) {
  if (product.before_gelu != nullptr) return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  if (product.slope_of_gelu != nullptr) return CUBLASLT_EPILOGUE_DGELU;
  return product.bias != nullptr ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

bool is_being_recorded(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(stream, &status) == cudaSuccess &&
         status != cudaStreamCaptureStatusNone;
}

// Milliseconds between two moments of a stream.
class StreamClock {
 public:
  explicit StreamClock(cudaStream_t stream) : stream_(stream) {
    cudaEventCreate(&from_);
    cudaEventCreate(&to_);
  }
  ~StreamClock() {
    cudaEventDestroy(from_);
    cudaEventDestroy(to_);
  }
  StreamClock(const StreamClock&) = delete;
  StreamClock& operator=(const StreamClock&) = delete;
  template <class Work>
  float time(const Work& work) {
    cudaEventRecord(from_, stream_);
    work();
    cudaEventRecord(to_, stream_);
    cudaEventSynchronize(to_);
    float ms = 0;
    cudaEventElapsedTime(&ms, from_, to_);
    return ms;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t from_ = nullptr;
  cudaEvent_t to_ = nullptr;
};

}  // namespace

// cuBLASLt counts by columns. Row by row, out = a b is the same memory as out' = b' a' by columns:
// so b comes first there.
struct Matmul::Plan {
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatrixLayout_t first = nullptr;
  cublasLtMatrixLayout_t second = nullptr;
  cublasLtMatrixLayout_t out = nullptr;
  cublasLtMatmulAlgo_t algorithm{};

  explicit Plan(const Product& product) {
    check(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F), "description");
    set(description, CUBLASLT_MATMUL_DESC_TRANSA, product.b_is_turned ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(description, CUBLASLT_MATMUL_DESC_TRANSB, product.a_is_turned ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(product));
    if (product.before_gelu != nullptr || product.slope_of_gelu != nullptr)
      set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, product.columns);
    if (product.factor != nullptr)
      set(description, CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_DEVICE);
    point_to(product);
    const auto layout = [](cublasLtMatrixLayout_t& made, cudaDataType_t type, bool turned,
                           std::int64_t rows, std::int64_t columns) {
      const auto tall = static_cast<std::uint64_t>(turned ? columns : rows);
      const auto wide = static_cast<std::uint64_t>(turned ? rows : columns);
      check(cublasLtMatrixLayoutCreate(&made, type, tall, wide, static_cast<std::int64_t>(tall)),
            "layout");
    };
    layout(first, CUDA_R_16BF, product.b_is_turned, product.columns, product.depth);
    layout(second, CUDA_R_16BF, product.a_is_turned, product.depth, product.rows);
    layout(out, product.out_is_float ? CUDA_R_32F : CUDA_R_16BF, false, product.columns,
           product.rows);
  }
  ~Plan() {
    cublasLtMatrixLayoutDestroy(first);
    cublasLtMatrixLayoutDestroy(second);
    cublasLtMatrixLayoutDestroy(out);
    cublasLtMatmulDescDestroy(description);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // Where this product's own vectors lie.
  void point_to(const Product& product) const {
    if (product.bias != nullptr)
      set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(product.bias));
    if (product.before_gelu != nullptr)
      set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
          static_cast<const void*>(product.before_gelu));
    if (product.slope_of_gelu != nullptr)
      set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
          static_cast<const void*>(product.slope_of_gelu));
  }

  std::vector<cublasLtMatmulAlgo_t> proposals(cublasLtHandle_t handle) const {
    cublasLtMatmulPreference_t preference = nullptr;
    check(cublasLtMatmulPreferenceCreate(&preference), "preference");
    const std::size_t bytes = kWorkspaceBytes;
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &bytes, sizeof bytes);
    std::array<cublasLtMatmulHeuristicResult_t, kProposals> found{};
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle, description, first, second, out, out, preference, kProposals, found.data(), &count);
    cublasLtMatmulPreferenceDestroy(preference);
    check(status, "proposals");
    std::vector<cublasLtMatmulAlgo_t> list;
    for (int i = 0; i < count; ++i)
      if (found[static_cast<std::size_t>(i)].state == CUBLAS_STATUS_SUCCESS)
        list.push_back(found[static_cast<std::size_t>(i)].algo);
    if (list.empty()) throw std::runtime_error("cuBLASLt has no way to make this product");
    return list;
  }
};

Matmul::Matmul(void* workspace, const float* zero) : workspace_(workspace), zero_(zero) {
  check(cublasLtCreate(&handle_), "start");
}

Matmul::~Matmul() {
  plans_.clear();
  cublasLtDestroy(handle_);
}

void Matmul::run(const Plan& plan, const cublasLtMatmulAlgo_t& algorithm, const Product& product,
                 cudaStream_t stream) {
  const float one = 1;
  const float of_sum = product.added != nullptr ? 1.0F : 0.0F;
  const void* const factor = product.factor != nullptr ? product.factor : &one;
  const void* const sum_factor = product.factor != nullptr ? zero_ : &of_sum;
  const void* const added =
      product.added != nullptr ? static_cast<const void*>(product.added) : product.out;
  check(cublasLtMatmul(handle_, plan.description, factor, product.b, plan.first, product.a,
                       plan.second, sum_factor, added, plan.out, product.out, plan.out, &algorithm,
                       workspace_, kWorkspaceBytes, stream),
        "product");
}

// Running a product again changes nothing: it writes the same numbers to the same place. So
// proposals are tried in earnest.
Matmul::Plan& Matmul::plan_for(const Product& product, cudaStream_t stream) {
  const std::int64_t flags = (product.a_is_turned ? 1 : 0) | (product.b_is_turned ? 2 : 0) |
                             (product.out_is_float ? 4 : 0) | (product.factor != nullptr ? 8 : 0) |
                             (product.added != nullptr ? 16 : 0) |
                             (std::int64_t{epilogue_of(product)} << 8);
  std::unique_ptr<Plan>& plan = plans_[{product.rows, product.columns, product.depth, flags}];
  if (plan) return *plan;
  plan = std::make_unique<Plan>(product);
  const std::vector<cublasLtMatmulAlgo_t> proposals = plan->proposals(handle_);
  plan->algorithm = proposals.front();
  if (is_being_recorded(stream)) return *plan;
  plan->algorithm = fastest(*plan, proposals, product, stream);
  return *plan;
}

// All proposals briefly, then the best of them by turns: the GPU's clock changes while they run.
cublasLtMatmulAlgo_t Matmul::fastest(const Plan& plan,
                                     const std::vector<cublasLtMatmulAlgo_t>& proposals,
                                     const Product& product, cudaStream_t stream) {
  struct Tried {
    float ms;
    cublasLtMatmulAlgo_t algorithm;
  };
  StreamClock clock(stream);
  const auto time = [&](const cublasLtMatmulAlgo_t& algorithm) {
    return clock.time([&] {
      for (int i = 0; i < kFirstRuns; ++i) run(plan, algorithm, product, stream);
    });
  };
  std::vector<Tried> tried;
  for (const cublasLtMatmulAlgo_t& algorithm : proposals) try {
      run(plan, algorithm, product, stream);
      tried.push_back({time(algorithm), algorithm});
    } catch (const std::runtime_error&) {  // some proposals refuse when they are run
    }
  if (tried.empty()) throw std::runtime_error("cuBLASLt refuses all of its own proposals");
  std::ranges::sort(tried, [](const Tried& a, const Tried& b) { return a.ms < b.ms; });
  tried.resize(std::min(tried.size(), kFinalists));
  for (int round = 0; round < kFinalRounds; ++round)
    for (Tried& one : tried) one.ms = std::min(one.ms, time(one.algorithm));
  return std::ranges::min_element(tried, [](const Tried& a, const Tried& b) { return a.ms < b.ms; })
      ->algorithm;
}

void Matmul::operator()(const Product& product, cudaStream_t stream) {
  Plan& plan = plan_for(product, stream);
  plan.point_to(product);
  run(plan, plan.algorithm, product, stream);
}

}  // namespace lockstep
