// A block has a row of logits, keeps it in shared memory, and writes the gradient where the logits
// were: one trip there and back instead of the four that a stored softmax in fp32 takes.
#include <cuda_pipeline.h>

#include "reference_trainer/cuda/kernels/device_tools.cuh"

namespace lockstep::kernels {
namespace {

constexpr int kThreads = 512;

// Every thread reads back only what it brought itself, so the row needs no barrier.
__global__ void __launch_bounds__(kThreads, 2)
    row_losses(Half* logits, const std::int64_t* targets, float* losses, int padded, int vocabulary,
               float share) {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  Half* const row = reinterpret_cast<Half*>(shared_bytes);
  __shared__ float room[33];
  __shared__ float largest_of[kThreads / 32];
  Half* const outside = logits + static_cast<std::int64_t>(blockIdx.x) * padded;
  const int first = static_cast<int>(threadIdx.x) * kVector;
  constexpr int kStride = kThreads * kVector;
  for (int column = first; column < padded; column += kStride)
    __pipeline_memcpy_async(row + column, outside + column, sizeof(Eight));
  __pipeline_commit();
  const auto target = static_cast<int>(targets[blockIdx.x]);
  // nobody overwrites it before the barrier below
  const float at_target = __bfloat162float(outside[target]);
  __pipeline_wait_prior(0);
  float largest = -INFINITY;
  for (int column = first; column < padded; column += kStride) {
    const Eight eight = load_eight(row + column);
#pragma unroll
    for (int j = 0; j < kVector; ++j)
      if (column + j < vocabulary) largest = fmaxf(largest, __bfloat162float(eight.value[j]));
  }
  largest = max_over_warp(largest);
  if (threadIdx.x % 32 == 0) largest_of[threadIdx.x / 32] = largest;
  __syncthreads();
#pragma unroll
  for (int warp = 0; warp < kThreads / 32; ++warp) largest = fmaxf(largest, largest_of[warp]);
  float sum = 0;
  for (int column = first; column < padded; column += kStride) {
    const Eight eight = load_eight(row + column);
#pragma unroll
    for (int j = 0; j < kVector; ++j)
      if (column + j < vocabulary) sum += __expf(__bfloat162float(eight.value[j]) - largest);
  }
  sum = sum_over_block(sum, room);
  if (threadIdx.x == 0) losses[blockIdx.x] = logf(sum) + largest - at_target;
  const float factor = share / sum;
  for (int column = first; column < padded; column += kStride) {
    Eight eight = load_eight(row + column);
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      const float chance = column + j < vocabulary
                               ? __expf(__bfloat162float(eight.value[j]) - largest) * factor
                               : 0.0F;
      eight.value[j] = __float2bfloat16(column + j == target ? chance - share : chance);
    }
    store_eight(outside + column, eight);
  }
}

}  // namespace

void cross_entropy_in_place(Half* logits, const std::int64_t* targets, float* losses, int rows,
                            int padded_vocabulary, int vocabulary, cudaStream_t stream) {
  const int bytes = padded_vocabulary * static_cast<int>(sizeof(Half));
  cudaFuncSetAttribute(row_losses, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  row_losses<<<rows, kThreads, static_cast<std::size_t>(bytes), stream>>>(
      logits, targets, losses, padded_vocabulary, vocabulary, 1.0F / static_cast<float>(rows));
}

}  // namespace lockstep::kernels
