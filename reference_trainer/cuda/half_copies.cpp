#include "reference_trainer/cuda/half_copies.hpp"

#include <ATen/cuda/CUDAContext.h>

#include <algorithm>

#include "reference_trainer/cuda/kernels/kernels.hpp"

namespace lockstep {

void HalfCopies::add(const Tensor& parameter, std::int64_t rows) {
  std::vector<std::int64_t> size = parameter.sizes().vec();
  size.front() = std::max(size.front(), rows);
  places_[parameter.unsafeGetTensorImpl()] = parameters_.size();
  parameters_.push_back(parameter);
  copies_.push_back(at::zeros(size, parameter.options().dtype(at::kBFloat16).requires_grad(false)));
}

bool HalfCopies::is_table_right() const {
  if (table_of_.size() != parameters_.size()) return false;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].data_ptr() != table_of_[i]) return false;
  return true;
}

void HalfCopies::make_table() {
  std::vector<kernels::CastPiece> pieces;
  table_of_.clear();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto* const from = parameters_[i].data_ptr<float>();
    auto* const to = reinterpret_cast<kernels::Half*>(copies_[i].data_ptr<at::BFloat16>());
    const std::int64_t size = parameters_[i].numel();
    for (std::int64_t place = 0; place < size; place += kernels::kPiece)
      pieces.push_back(
          {from + place, to + place,
           static_cast<std::int32_t>(std::min<std::int64_t>(kernels::kPiece, size - place))});
    table_of_.push_back(from);
  }
  pieces_ = static_cast<int>(pieces.size());
  table_ = at::from_blob(pieces.data(),
                         {static_cast<std::int64_t>(pieces.size() * sizeof(kernels::CastPiece))},
                         at::kByte)
               .to(parameters_.front().device());
}

void HalfCopies::refresh() {
  if (!is_table_right()) make_table();
  kernels::cast_all(reinterpret_cast<const kernels::CastPiece*>(table_.data_ptr()), pieces_,
                    at::cuda::getCurrentCUDAStream());
}

}  // namespace lockstep
