// CUDA kernels of the fused GPT pass: what ATen does in several trips to memory, done in one. They
// know pointers and sizes, no tensors. Matrices lie row by row. Sums are kept in fp32, and where
// blocks add up they do so in a fixed order, except in embed_backward.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace lockstep::kernels {

using Half = __nv_bfloat16;

// Widths must be multiples of this: 16 bytes are read at once.
inline constexpr int kVector = 8;
inline constexpr int kWidestNorm = 2048;
// a row must fit into a multiprocessor's shared memory
inline constexpr int kLargestVocabulary = 110'000;

struct NormSaved {
  float* mean;
  float* inverse_deviation;
};

// normed = (x - mean) / deviation * weight + bias, row by row.
void layer_norm(const Half* x, const float* weight, const float* bias, Half* normed,
                NormSaved saved, int rows, int width, cudaStream_t stream);

// x_gradient = the norm's own gradient + residual_gradient (what comes past the norm; nullptr:
// nothing does).
struct NormGradients {
  Half* x;
  float* weight;
  float* bias;
  // the columns of x's gradient added up: the bias gradient of the layer that x was the output of;
  // nullptr: not asked
  float* x_sums;
};
// `scratch`: layer_norm_scratch() floats.
void layer_norm_backward(const Half* normed_gradient, const Half* residual_gradient, const Half* x,
                         const float* weight, NormSaved saved, NormGradients gradients,
                         float* scratch, int rows, int width, cudaStream_t stream);
std::int64_t layer_norm_scratch(int width);

// sums = the columns of a matrix added up. `scratch`: column_sum_scratch() floats.
void column_sums(const Half* matrix, float* sums, float* scratch, int rows, int width,
                 cudaStream_t stream);
// The same for three matrices side by side, which are written as one as well.
void join_three(const Half* first, const Half* second, const Half* third, Half* joined, float* sums,
                float* scratch, int rows, int width_of_one, cudaStream_t stream);
std::int64_t column_sum_scratch(int width);

// x = token_table[token] + position_table[position].
void embed(const std::int64_t* tokens, const float* token_table, const float* position_table,
           Half* x, int rows, int length, int width, cudaStream_t stream);
// Adds to the tables' gradients. Tokens that come twice are added in any order: the last bit may
// differ from run to run.
void embed_backward(const std::int64_t* tokens, const Half* x_gradient, float* token_gradient,
                    float* position_gradient, int rows, int length, int width, cudaStream_t stream);

// The loss of each row, and in place of the logits their gradient for the mean over all rows.
// Columns from `vocabulary` on are padding: they count as minus infinity.
void cross_entropy_in_place(Half* logits, const std::int64_t* targets, float* losses, int rows,
                            int padded_vocabulary, int vocabulary, cudaStream_t stream);

// Many tensors in one launch: a table of pieces in the GPU's memory, a block each.
inline constexpr int kPiece = 16384;
struct CastPiece {
  const float* from;
  Half* to;
  std::int32_t size;
};
void cast_all(const CastPiece* pieces, int count, cudaStream_t stream);

struct AdamwPiece {
  float* value;
  float* gradient;
  float* first_moment;
  float* second_moment;
  std::int32_t size;
  float weight_decay;
};
// What one update shares. Numbers that change from update to update lie in the GPU's memory, so
// that a graph can hold the launch.
struct AdamwShared {
  float beta1, beta2, epsilon, clip;  // clip 0: none
  bool clear;                         // gradients are zero afterwards
  const float* rate;
  const float* step;           // updates done, this one counted
  const float* gradient_norm;  // over all pieces
};
// `scratch`: a float a piece
void gradient_norm(const AdamwPiece* pieces, int count, float* scratch, float* norm,
                   cudaStream_t stream);
void adamw(const AdamwPiece* pieces, int count, AdamwShared shared, cudaStream_t stream);

}  // namespace lockstep::kernels
