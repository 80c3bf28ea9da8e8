// A block has a few rows at a time: each thread has eight neighbouring columns of all of them, so
// that weights stay in registers and the columns' sums need no exchange until the end. (A warp a
// row, with its weights read again for each, took 73 µs forward and 162 µs back on 32768 rows of
// 768, an H200; memory alone takes 24 and 48.)
#include "reference_trainer/cuda/kernels/device_tools.cuh"

namespace lockstep::kernels {
namespace {

constexpr int kMostWarps = kWidestNorm / kVector / 32;
// of a block at a time, forward: so many reads are under way at once
constexpr int kRows = 4;
constexpr int kRowsBack = 2;  // backward, which reads three matrices
// six for each of an H200's 132 multiprocessors; each leaves one row of partial sums
constexpr int kBackwardBlocks = 792;
constexpr float kEpsilon = 1e-5F;  // torch.nn.LayerNorm's

struct Columns {
  float value[kVector];
};
__device__ inline Columns load_columns(const float* from) {
  Columns columns;
  *reinterpret_cast<float4*>(columns.value) = *reinterpret_cast<const float4*>(from);
  *reinterpret_cast<float4*>(columns.value + 4) = *reinterpret_cast<const float4*>(from + 4);
  return columns;
}

// Every thread gets the sums over the block of kCount numbers. `room` is free again after the next
// call with the other room.
template <int kCount>
__device__ inline void sum_over_columns(float (&value)[kCount], float (*room)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) value[i] = sum_over_warp(value[i]);
  if (threadIdx.x % 32 == 0)
#pragma unroll
    for (int i = 0; i < kCount; ++i) room[threadIdx.x / 32][i] = value[i];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kCount; ++i) value[i] = 0;
  for (int warp = 0; warp < static_cast<int>(blockDim.x) / 32; ++warp)
#pragma unroll
    for (int i = 0; i < kCount; ++i) value[i] += room[warp][i];
}

__global__ void norm_rows(const Half* x, const float* weight, const float* bias, Half* normed,
                          NormSaved saved, int rows, int width) {
  __shared__ float rooms[2][kMostWarps][kRows];
  const int column = static_cast<int>(threadIdx.x) * kVector;
  const bool has_columns = column < width;
  Columns weights{};
  Columns biases{};
  if (has_columns) {
    weights = load_columns(weight + column);
    biases = load_columns(bias + column);
  }
  const float share = 1.0F / static_cast<float>(width);
  for (int first = blockIdx.x * kRows; first < rows; first += static_cast<int>(gridDim.x) * kRows) {
    float value[kRows][kVector];
    float sum[kRows] = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      Eight eight{};
      if (has_columns && first + r < rows)
        eight = load_eight(x + static_cast<std::int64_t>(first + r) * width + column);
#pragma unroll
      for (int j = 0; j < kVector; ++j) value[r][j] = __bfloat162float(eight.value[j]);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int j = 0; j < kVector; ++j) sum[r] += value[r][j];
    sum_over_columns(sum, rooms[0]);
    float squares[kRows] = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      sum[r] *= share;  // now the mean
#pragma unroll
      for (int j = 0; j < kVector; ++j)
        squares[r] += has_columns ? (value[r][j] - sum[r]) * (value[r][j] - sum[r]) : 0.0F;
    }
    sum_over_columns(squares, rooms[1]);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int row = first + r;
      if (row >= rows) continue;
      const float inverse_deviation = rsqrtf(squares[r] * share + kEpsilon);
      if (threadIdx.x == 0) {
        saved.mean[row] = sum[r];
        saved.inverse_deviation[row] = inverse_deviation;
      }
      if (!has_columns) continue;
      Eight out;
#pragma unroll
      for (int j = 0; j < kVector; ++j)
        out.value[j] = __float2bfloat16(
            (value[r][j] - sum[r]) * inverse_deviation * weights.value[j] + biases.value[j]);
      store_eight(normed + static_cast<std::int64_t>(row) * width + column, out);
    }
  }
}

// kThreads and kBlocks: so that registers are left for as many blocks at once as hide each other's
// reads.
template <bool kSums, int kThreads, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks)
    norm_rows_backward(const Half* normed_gradient, const Half* residual_gradient, const Half* x,
                       const float* weight, NormSaved saved, Half* x_gradient, float* partial,
                       int rows, int width) {
  __shared__ float rooms[2][kMostWarps][2 * kRowsBack];
  const int column = static_cast<int>(threadIdx.x) * kVector;
  const bool has_columns = column < width;
  Columns weights{};
  if (has_columns) weights = load_columns(weight + column);
  const float share = 1.0F / static_cast<float>(width);
  float to_weight[kVector] = {};
  float to_bias[kVector] = {};
  float to_sums[kVector] = {};
  int room = 0;
  for (int first = blockIdx.x * kRowsBack; first < rows;
       first += static_cast<int>(gridDim.x) * kRowsBack) {
    Eight gradient[kRowsBack];
    Eight input[kRowsBack];
    Eight past[kRowsBack];
    float mean[kRowsBack];
    float inverse_deviation[kRowsBack];
#pragma unroll
    for (int r = 0; r < kRowsBack; ++r) {
      gradient[r] = input[r] = past[r] = Eight{};
      mean[r] = inverse_deviation[r] = 0;
      if (first + r >= rows) continue;
      mean[r] = saved.mean[first + r];
      inverse_deviation[r] = saved.inverse_deviation[first + r];
      if (!has_columns) continue;
      const std::int64_t place = static_cast<std::int64_t>(first + r) * width + column;
      gradient[r] = load_once(normed_gradient + place);
      input[r] = load_once(x + place);
      if (residual_gradient != nullptr) past[r] = load_once(residual_gradient + place);
    }
    // of the weighed gradient, and of its product with the normal value
    float sums[2 * kRowsBack] = {};
#pragma unroll
    for (int r = 0; r < kRowsBack; ++r)
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        const float normal = (__bfloat162float(input[r].value[j]) - mean[r]) * inverse_deviation[r];
        const float slope = __bfloat162float(gradient[r].value[j]);
        to_weight[j] += slope * normal;
        to_bias[j] += slope;
        const float weighed = slope * weights.value[j];
        sums[2 * r] += weighed;
        sums[2 * r + 1] += weighed * normal;
      }
    sum_over_columns(sums, rooms[room]);
    room = 1 - room;  // one barrier a round: the other room's readers are past it
#pragma unroll
    for (int r = 0; r < kRowsBack; ++r) {
      if (first + r >= rows || !has_columns) continue;
      Eight out;
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        const float normal = (__bfloat162float(input[r].value[j]) - mean[r]) * inverse_deviation[r];
        const float weighed = __bfloat162float(gradient[r].value[j]) * weights.value[j];
        const float all = inverse_deviation[r] *
                              (weighed - sums[2 * r] * share - normal * sums[2 * r + 1] * share) +
                          __bfloat162float(past[r].value[j]);
        out.value[j] = __float2bfloat16(all);
        if constexpr (kSums) to_sums[j] += all;
      }
      store_eight(x_gradient + static_cast<std::int64_t>(first + r) * width + column, out);
    }
  }
  if (!has_columns) return;
  // Partial sums of one kind are neighbours: kinds x blocks x width.
  const std::int64_t kind = static_cast<std::int64_t>(gridDim.x) * width;
  float* const place = partial + static_cast<std::int64_t>(blockIdx.x) * width + column;
#pragma unroll
  for (int j = 0; j < kVector; ++j) {
    place[j] = to_weight[j];
    place[kind + j] = to_bias[j];
    if constexpr (kSums) place[2 * kind + j] = to_sums[j];
  }
}

unsigned threads_for(int width) { return static_cast<unsigned>((width / kVector + 31) / 32 * 32); }

}  // namespace

void layer_norm(const Half* x, const float* weight, const float* bias, Half* normed,
                NormSaved saved, int rows, int width, cudaStream_t stream) {
  constexpr int kMostBlocks = 132 * 16;
  const int blocks = (rows + kRows - 1) / kRows;
  norm_rows<<<static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks),
              threads_for(width), 0, stream>>>(x, weight, bias, normed, saved, rows, width);
}

std::int64_t layer_norm_scratch(int width) { return std::int64_t{3} * kBackwardBlocks * width; }

void layer_norm_backward(const Half* normed_gradient, const Half* residual_gradient, const Half* x,
                         const float* weight, NormSaved saved, NormGradients gradients,
                         float* scratch, int rows, int width, cudaStream_t stream) {
  const auto launch = [&](auto kernel) {
    kernel<<<kBackwardBlocks, threads_for(width), 0, stream>>>(
        normed_gradient, residual_gradient, x, weight, saved, gradients.x, scratch, rows, width);
  };
  const bool sums = gradients.x_sums != nullptr;
  if (width <= 768)
    launch(sums ? norm_rows_backward<true, 96, 6> : norm_rows_backward<false, 96, 6>);
  else if (width <= 1024)
    launch(sums ? norm_rows_backward<true, 128, 4> : norm_rows_backward<false, 128, 4>);
  else
    launch(sums ? norm_rows_backward<true, 256, 2> : norm_rows_backward<false, 256, 2>);
  add_partial_sums(scratch, {gradients.weight, gradients.bias, gradients.x_sums}, kBackwardBlocks,
                   width, stream);
}

}  // namespace lockstep::kernels
