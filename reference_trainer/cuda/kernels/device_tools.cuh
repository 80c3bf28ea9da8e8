// Small things that kernels share.
#pragma once

#include <cuda_bf16.h>

#include "reference_trainer/cuda/kernels/kernels.hpp"

namespace lockstep::kernels {

inline constexpr unsigned kAllLanes = 0xffffffffU;

// Eight numbers of a row, read or written at once.
struct alignas(16) Eight {
  Half value[kVector];
};
__device__ inline Eight load_eight(const Half* from) {
  return *reinterpret_cast<const Eight*>(from);
}
// Data that is read once should not push out of the cache what is read again.
__device__ inline Eight load_once(const Half* from) {
  const int4 bits = __ldcs(reinterpret_cast<const int4*>(from));
  return *reinterpret_cast<const Eight*>(&bits);
}
__device__ inline void store_eight(Half* to, const Eight& eight) {
  *reinterpret_cast<Eight*>(to) = eight;
}

__device__ inline float sum_over_warp(float value) {
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_xor_sync(kAllLanes, value, distance);
  return value;
}
__device__ inline float max_over_warp(float value) {
  for (int distance = 16; distance > 0; distance /= 2)
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, distance));
  return value;
}

// Every thread of the block gets the sum. `room`: 33 floats of shared memory, nobody else's until
// the next __syncthreads().
__device__ inline float sum_over_block(float value, float* room) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  value = sum_over_warp(value);
  if (lane == 0) room[warp] = value;
  __syncthreads();
  if (warp == 0) {
    const float total = sum_over_warp(lane < static_cast<int>(blockDim.x) / 32 ? room[lane] : 0.0F);
    if (lane == 0) room[32] = total;
  }
  __syncthreads();
  return room[32];
}

// Up to three vectors; those after the last are nullptr.
struct Sums {
  float* first;
  float* second;
  float* third;
};
// Each of the sums: `rows` rows of partial sums added up, always in the same order. The rows of one
// follow those of the one before.
void add_partial_sums(const float* partial, Sums sums, int rows, int width, cudaStream_t stream);

}  // namespace lockstep::kernels
