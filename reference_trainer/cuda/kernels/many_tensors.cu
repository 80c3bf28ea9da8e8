// One launch for all tensors of a model: casts, the gradient's length, AdamW.
#include "reference_trainer/cuda/kernels/device_tools.cuh"

namespace lockstep::kernels {
namespace {

constexpr int kThreads = 512;
constexpr int kFour = 4;

// Pieces start at multiples of kPiece within tensors that torch aligns, so all but the last numbers
// can be read four at a time.
__device__ inline bool whole_four(int place, int size) { return place + kFour <= size; }

__global__ void __launch_bounds__(kThreads) cast_pieces(const CastPiece* pieces) {
  const CastPiece piece = pieces[blockIdx.x];
  for (int place = threadIdx.x * kFour; place < piece.size; place += kThreads * kFour) {
    if (whole_four(place, piece.size)) {
      const float4 four = *reinterpret_cast<const float4*>(piece.from + place);
      __nv_bfloat162 both[2] = {__floats2bfloat162_rn(four.x, four.y),
                                __floats2bfloat162_rn(four.z, four.w)};
      *reinterpret_cast<uint2*>(piece.to + place) = *reinterpret_cast<uint2*>(both);
    } else {
      for (int i = place; i < piece.size; ++i) piece.to[i] = __float2bfloat16(piece.from[i]);
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    square_pieces(const AdamwPiece* pieces, float* squares) {
  __shared__ float room[33];
  const AdamwPiece& piece = pieces[blockIdx.x];
  const float* const gradient = piece.gradient;
  const int size = piece.size;
  float sum = 0;
  for (int place = threadIdx.x * kFour; place < size; place += kThreads * kFour) {
    if (whole_four(place, size)) {
      const float4 four = *reinterpret_cast<const float4*>(gradient + place);
      sum += four.x * four.x + four.y * four.y + four.z * four.z + four.w * four.w;
    } else {
      for (int i = place; i < size; ++i) sum += gradient[i] * gradient[i];
    }
  }
  sum = sum_over_block(sum, room);
  if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(1024) add_squares(const float* squares, int count, float* norm) {
  __shared__ float room[33];
  float sum = 0;
  for (int i = threadIdx.x; i < count; i += 1024) sum += squares[i];
  sum = sum_over_block(sum, room);
  if (threadIdx.x == 0) *norm = sqrtf(sum);
}

struct Step {
  float factor;  // of the gradient: below 1 where it is clipped
  float rate;
  float first_part;   // rate / (1 - beta1^step)
  float second_root;  // sqrt(1 - beta2^step)
};

__device__ inline float changed(float value, float gradient, float& first, float& second,
                                const AdamwShared& shared, const Step& step, float weight_decay) {
  gradient *= step.factor;
  value -= step.rate * weight_decay * value;
  first = shared.beta1 * first + (1 - shared.beta1) * gradient;
  second = shared.beta2 * second + (1 - shared.beta2) * gradient * gradient;
  return value - step.first_part * first / (sqrtf(second) / step.second_root + shared.epsilon);
}

__global__ void __launch_bounds__(kThreads)
    change_pieces(const AdamwPiece* pieces, AdamwShared shared) {
  const AdamwPiece piece = pieces[blockIdx.x];
  Step step;
  step.rate = *shared.rate;
  const float updates = *shared.step;
  step.first_part = step.rate / (1 - powf(shared.beta1, updates));
  step.second_root = sqrtf(1 - powf(shared.beta2, updates));
  step.factor = shared.clip > 0 ? fminf(1.0F, shared.clip / (*shared.gradient_norm + 1e-6F)) : 1.0F;
  for (int place = threadIdx.x * kFour; place < piece.size; place += kThreads * kFour) {
    if (whole_four(place, piece.size)) {
      float4 value = *reinterpret_cast<const float4*>(piece.value + place);
      const float4 gradient = *reinterpret_cast<const float4*>(piece.gradient + place);
      float4 first = *reinterpret_cast<const float4*>(piece.first_moment + place);
      float4 second = *reinterpret_cast<const float4*>(piece.second_moment + place);
      value.x = changed(value.x, gradient.x, first.x, second.x, shared, step, piece.weight_decay);
      value.y = changed(value.y, gradient.y, first.y, second.y, shared, step, piece.weight_decay);
      value.z = changed(value.z, gradient.z, first.z, second.z, shared, step, piece.weight_decay);
      value.w = changed(value.w, gradient.w, first.w, second.w, shared, step, piece.weight_decay);
      *reinterpret_cast<float4*>(piece.value + place) = value;
      *reinterpret_cast<float4*>(piece.first_moment + place) = first;
      *reinterpret_cast<float4*>(piece.second_moment + place) = second;
      if (shared.clear)
        *reinterpret_cast<float4*>(piece.gradient + place) = make_float4(0, 0, 0, 0);
    } else {
      for (int i = place; i < piece.size; ++i) {
        piece.value[i] = changed(piece.value[i], piece.gradient[i], piece.first_moment[i],
                                 piece.second_moment[i], shared, step, piece.weight_decay);
        if (shared.clear) piece.gradient[i] = 0;
      }
    }
  }
}

}  // namespace

void cast_all(const CastPiece* pieces, int count, cudaStream_t stream) {
  cast_pieces<<<count, kThreads, 0, stream>>>(pieces);
}

void gradient_norm(const AdamwPiece* pieces, int count, float* scratch, float* norm,
                   cudaStream_t stream) {
  square_pieces<<<count, kThreads, 0, stream>>>(pieces, scratch);
  add_squares<<<1, 1024, 0, stream>>>(scratch, count, norm);
}

void adamw(const AdamwPiece* pieces, int count, AdamwShared shared, cudaStream_t stream) {
  change_pieces<<<count, kThreads, 0, stream>>>(pieces, shared);
}

}  // namespace lockstep::kernels
