// Token and position tables.
#include "reference_trainer/cuda/kernels/device_tools.cuh"

namespace lockstep::kernels {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    embed_rows(const std::int64_t* tokens, const float* token_table, const float* position_table,
               Half* x, int rows, int length, int width) {
  const std::int64_t place =
      (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kVector;
  if (place >= static_cast<std::int64_t>(rows) * width) return;
  const auto row = static_cast<int>(place / width);
  const int column = static_cast<int>(place % width);
  const auto* const token =
      reinterpret_cast<const float4*>(token_table + tokens[row] * width + column);
  const auto* const position = reinterpret_cast<const float4*>(
      position_table + static_cast<std::int64_t>(row % length) * width + column);
  Eight out;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float4 a = token[half];
    const float4 b = position[half];
    out.value[4 * half] = __float2bfloat16(a.x + b.x);
    out.value[4 * half + 1] = __float2bfloat16(a.y + b.y);
    out.value[4 * half + 2] = __float2bfloat16(a.z + b.z);
    out.value[4 * half + 3] = __float2bfloat16(a.w + b.w);
  }
  store_eight(x + place, out);
}

// A thread has eight columns of one position in all samples: the position's sum is its own, the
// tokens' rows are shared.
__global__ void __launch_bounds__(kThreads)
    embed_rows_backward(const std::int64_t* tokens, const Half* x_gradient, float* token_gradient,
                        float* position_gradient, int samples, int length, int width) {
  const std::int64_t place =
      (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kVector;
  if (place >= static_cast<std::int64_t>(length) * width) return;
  const auto position = static_cast<int>(place / width);
  const int column = static_cast<int>(place % width);
  float sum[kVector] = {};
  for (int sample = 0; sample < samples; ++sample) {
    const std::int64_t row = static_cast<std::int64_t>(sample) * length + position;
    const Eight eight = load_once(x_gradient + row * width + column);
    auto* const of_token = reinterpret_cast<float4*>(token_gradient + tokens[row] * width + column);
    float slope[kVector];
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      slope[j] = __bfloat162float(eight.value[j]);
      sum[j] += slope[j];
    }
    atomicAdd(of_token, make_float4(slope[0], slope[1], slope[2], slope[3]));
    atomicAdd(of_token + 1, make_float4(slope[4], slope[5], slope[6], slope[7]));
  }
#pragma unroll
  for (int j = 0; j < kVector; ++j)
    position_gradient[static_cast<std::int64_t>(position) * width + column + j] += sum[j];
}

unsigned blocks_for(std::int64_t numbers) {
  return static_cast<unsigned>((numbers / kVector + kThreads - 1) / kThreads);
}

}  // namespace

void embed(const std::int64_t* tokens, const float* token_table, const float* position_table,
           Half* x, int rows, int length, int width, cudaStream_t stream) {
  embed_rows<<<blocks_for(static_cast<std::int64_t>(rows) * width), kThreads, 0, stream>>>(
      tokens, token_table, position_table, x, rows, length, width);
}

void embed_backward(const std::int64_t* tokens, const Half* x_gradient, float* token_gradient,
                    float* position_gradient, int rows, int length, int width,
                    cudaStream_t stream) {
  embed_rows_backward<<<blocks_for(static_cast<std::int64_t>(length) * width), kThreads, 0,
                        stream>>>(tokens, x_gradient, token_gradient, position_gradient,
                                  rows / length, length, width);
}

}  // namespace lockstep::kernels
