// Columns of tall matrices added up: bias gradients.
#include "reference_trainer/cuda/kernels/device_tools.cuh"

namespace lockstep::kernels {
namespace {

constexpr int kLanes = 32;                  // threads side by side, eight columns each
constexpr int kRowsAtOnce = 8;              // and below each other
constexpr int kColumns = kLanes * kVector;  // of a block
// blocks below each other: each leaves one row of partial sums
constexpr int kSplits = 128;
constexpr int kPartialThreads = 512;

// One matrix, or three side by side that are written as one.
struct Sources {
  const Half* first;
  const Half* second;
  const Half* third;
  int width_of_one;
};

template <bool kJoin>
__global__ void __launch_bounds__(kLanes* kRowsAtOnce)
    sum_columns(Sources sources, Half* joined, float* partial, int rows, int width) {
  __shared__ float of_block[kRowsAtOnce][kColumns + 1];
  const int lane = threadIdx.x % kLanes;
  const int line = threadIdx.x / kLanes;
  const int column = blockIdx.x * kColumns + lane * kVector;
  float sum[kVector] = {};
  if (column < width) {
    const int source = kJoin ? column / sources.width_of_one : 0;
    const int pitch = kJoin ? sources.width_of_one : width;
    const Half* const matrix = (source == 0   ? sources.first
                                : source == 1 ? sources.second
                                              : sources.third) +
                               (column - source * pitch);
#pragma unroll 4
    for (int row = blockIdx.y * kRowsAtOnce + line; row < rows; row += kSplits * kRowsAtOnce) {
      const Eight eight = load_once(matrix + static_cast<std::int64_t>(row) * pitch);
      if constexpr (kJoin)
        store_eight(joined + static_cast<std::int64_t>(row) * width + column, eight);
#pragma unroll
      for (int j = 0; j < kVector; ++j) sum[j] += __bfloat162float(eight.value[j]);
    }
  }
#pragma unroll
  for (int j = 0; j < kVector; ++j) of_block[line][lane * kVector + j] = sum[j];
  __syncthreads();
  const int own = blockIdx.x * kColumns + threadIdx.x;
  if (own >= width) return;
  float total = 0;
#pragma unroll
  for (int i = 0; i < kRowsAtOnce; ++i) total += of_block[i][threadIdx.x];
  partial[static_cast<std::int64_t>(blockIdx.y) * width + own] = total;
}

__global__ void __launch_bounds__(kPartialThreads)
    add_rows(const float* partial, Sums sums, int rows, int width) {
  // A warp has 32 columns; the block's warps share the rows, and add up in order.
  __shared__ float of_block[kPartialThreads / 32][32];
  float* const out = blockIdx.y == 0 ? sums.first : blockIdx.y == 1 ? sums.second : sums.third;
  partial += static_cast<std::int64_t>(blockIdx.y) * rows * width;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int column = blockIdx.x * 32 + lane;
  float sum = 0;
  if (column < width)
#pragma unroll 8
    for (int row = warp; row < rows; row += kPartialThreads / 32)
      sum += partial[static_cast<std::int64_t>(row) * width + column];
  of_block[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= width) return;
  float total = 0;
#pragma unroll
  for (int i = 0; i < kPartialThreads / 32; ++i) total += of_block[i][lane];
  out[column] = total;
}

dim3 grid_of(int width) {
  return {static_cast<unsigned>((width + kColumns - 1) / kColumns), kSplits};
}

}  // namespace

void add_partial_sums(const float* partial, Sums sums, int rows, int width, cudaStream_t stream) {
  const unsigned kinds = sums.third != nullptr ? 3 : sums.second != nullptr ? 2 : 1;
  add_rows<<<dim3(static_cast<unsigned>((width + 31) / 32), kinds), kPartialThreads, 0, stream>>>(
      partial, sums, rows, width);
}

std::int64_t column_sum_scratch(int width) { return std::int64_t{kSplits} * width; }

void column_sums(const Half* matrix, float* sums, float* scratch, int rows, int width,
                 cudaStream_t stream) {
  sum_columns<false><<<grid_of(width), kLanes * kRowsAtOnce, 0, stream>>>(
      {matrix, nullptr, nullptr, width}, nullptr, scratch, rows, width);
  add_partial_sums(scratch, {sums, nullptr, nullptr}, kSplits, width, stream);
}

void join_three(const Half* first, const Half* second, const Half* third, Half* joined, float* sums,
                float* scratch, int rows, int width_of_one, cudaStream_t stream) {
  const int width = 3 * width_of_one;
  sum_columns<true><<<grid_of(width), kLanes * kRowsAtOnce, 0, stream>>>(
      {first, second, third, width_of_one}, joined, scratch, rows, width);
  add_partial_sums(scratch, {sums, nullptr, nullptr}, kSplits, width, stream);
}

}  // namespace lockstep::kernels
