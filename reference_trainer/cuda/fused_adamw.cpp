#include "reference_trainer/cuda/fused_adamw.hpp"

#include <ATen/cuda/CUDAContext.h>

#include <algorithm>
#include <cstring>

#include "reference_trainer/cuda/kernels/kernels.hpp"

namespace lockstep {
namespace {

class FusedAdamw : public FusedUpdate {
 public:
  explicit FusedAdamw(at::Device device)
      : device_(device),
        rate_(at::zeros({1}, at::TensorOptions(device).dtype(at::kFloat))),
        norm_(at::zeros_like(rate_)) {}

  Tensor step(const std::vector<UpdatedTensors>& groups, const AdamwNumbers& numbers,
              const Tensor& steps_done, bool clear) override {
    bring_table(groups);
    rate_.fill_(numbers.rate);
    const auto* const pieces = reinterpret_cast<const kernels::AdamwPiece*>(table_.data_ptr());
    const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
    if (numbers.clip > 0)
      kernels::gradient_norm(pieces, count_, squares_.data_ptr<float>(), norm_.data_ptr<float>(),
                             stream);
    kernels::adamw(pieces, count_,
                   {.beta1 = static_cast<float>(numbers.beta1),
                    .beta2 = static_cast<float>(numbers.beta2),
                    .epsilon = static_cast<float>(numbers.epsilon),
                    .clip = static_cast<float>(numbers.clip),
                    .clear = clear,
                    .rate = rate_.data_ptr<float>(),
                    .step = steps_done.data_ptr<float>(),
                    .gradient_norm = norm_.data_ptr<float>()},
                   stream);
    return norm_.squeeze();
  }

 private:
  // To the GPU only when a tensor lies elsewhere than before: gradients stay where they are.
  void bring_table(const std::vector<UpdatedTensors>& groups) {
    std::vector<kernels::AdamwPiece> pieces;
    pieces.reserve(static_cast<std::size_t>(count_));
    for (const UpdatedTensors& group : groups)
      for (std::size_t i = 0; i < group.values.size(); ++i) {
        TORCH_CHECK(group.gradients[i].is_contiguous() && group.values[i].is_contiguous(),
                    "a parameter's gradient is not dense");
        const std::int64_t size = group.values[i].numel();
        for (std::int64_t at = 0; at < size; at += kernels::kPiece)
          pieces.push_back(
              {group.values[i].data_ptr<float>() + at, group.gradients[i].data_ptr<float>() + at,
               group.first_moments[i].data_ptr<float>() + at,
               group.second_moments[i].data_ptr<float>() + at,
               static_cast<std::int32_t>(std::min<std::int64_t>(kernels::kPiece, size - at)),
               static_cast<float>(group.weight_decay)});
      }
    const std::size_t bytes = pieces.size() * sizeof(kernels::AdamwPiece);
    if (last_.size() == pieces.size() && std::memcmp(last_.data(), pieces.data(), bytes) == 0)
      return;
    last_ = std::move(pieces);
    count_ = static_cast<int>(last_.size());
    table_ = at::from_blob(last_.data(), {static_cast<std::int64_t>(bytes)}, at::kByte).to(device_);
    squares_ = at::zeros({count_}, at::TensorOptions(device_).dtype(at::kFloat));
  }

  const at::Device device_;
  Tensor rate_;
  Tensor norm_;
  Tensor squares_;
  Tensor table_;
  std::vector<kernels::AdamwPiece> last_;
  int count_ = 0;
};

}  // namespace

std::unique_ptr<FusedUpdate> make_fused_adamw(at::Device device) {
  return std::make_unique<FusedAdamw>(device);
}

}  // namespace lockstep
