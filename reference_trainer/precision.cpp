#include "reference_trainer/precision.hpp"

namespace lockstep {
namespace {

constexpr double kFirstScale = 65536;
constexpr std::int64_t kGrowEvery = 2000;  // torch.amp.GradScaler's own

}  // namespace

Precision precision_named(const std::string& name, bool on_cuda) {
  if (name == "auto") return on_cuda ? Precision::bf16 : Precision::fp32;
  if (name == "bf16") return Precision::bf16;
  if (name == "fp16") return Precision::fp16;
  return name == "tf32" ? Precision::tf32 : Precision::fp32;
}

void allow_tensor_cores(Precision precision) {
  at::globalContext().setAllowTF32CuBLAS(precision != Precision::fp32);
  at::globalContext().setAllowTF32CuDNN(precision != Precision::fp32);
}

Autocast::Autocast(Precision precision, c10::DeviceType device)
    : device_(device), active_(precision == Precision::bf16 || precision == Precision::fp16) {
  if (!active_) return;
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_dtype(device_,
                                   precision == Precision::bf16 ? at::kBFloat16 : at::kHalf);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (!active_) return;
  // the weights change before the next pass
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, false);
}

Precision Autocast::of_this_thread(c10::DeviceType device) {
  if (!at::autocast::is_autocast_enabled(device)) return Precision::fp32;
  return at::autocast::get_autocast_dtype(device) == at::kHalf ? Precision::fp16 : Precision::bf16;
}

LossScaler::LossScaler(bool enabled, at::Device device) : enabled_(enabled) {
  if (!enabled_) return;
  scale_ = at::full({1}, kFirstScale, at::TensorOptions(device).dtype(at::kFloat));
  good_updates_ = at::zeros({1}, at::TensorOptions(device).dtype(at::kInt));
  found_inf_ = at::zeros({1}, at::TensorOptions(device).dtype(at::kFloat));
}

void LossScaler::unscale(const std::vector<std::vector<Tensor>>& gradients,
                         const Distributed& ranks) {
  if (!enabled_) return;
  found_inf_.zero_();
  const Tensor inverse = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
  for (const std::vector<Tensor>& of_device : gradients) {
    if (of_device.empty()) continue;
    const at::Device device = of_device.front().device();
    Tensor found = at::zeros_like(found_inf_, device);
    at::_amp_foreach_non_finite_check_and_unscale_(of_device, found, inverse.to(device));
    found_inf_ = at::maximum(found_inf_, found.to(found_inf_.device()));
  }
  ranks.all_reduce_max(found_inf_);
}

void LossScaler::update() {
  if (enabled_) at::_amp_update_scale_(scale_, good_updates_, found_inf_, 2.0, 0.5, kGrowEvery);
}

}  // namespace lockstep
