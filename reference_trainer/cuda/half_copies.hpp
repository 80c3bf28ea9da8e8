// bf16 copies of fp32 parameters, all made anew by one launch: parameters change under us (updates,
// checkpoints, other ranks).
#pragma once

#include <unordered_map>
#include <vector>

#include "reference_trainer/torch_headers.hpp"

namespace lockstep {

class HalfCopies {
 public:
  // `rows`: of the copy, where it should have more than the parameter; the rest is zero.
  void add(const Tensor& parameter, std::int64_t rows = 0);
  // The parameters' values of now.
  void refresh();
  const Tensor& of(const Tensor& parameter) const {
    return copies_[places_.at(parameter.unsafeGetTensorImpl())];
  }

 private:
  bool is_table_right() const;
  void make_table();

  std::vector<Tensor> parameters_;
  std::vector<Tensor> copies_;
  std::unordered_map<const c10::TensorImpl*, std::size_t> places_;
  std::vector<const void*> table_of_;  // where the parameters lay when the table was made
  Tensor table_;                       // of pieces, in the GPU's memory
  int pieces_ = 0;
};

}  // namespace lockstep
