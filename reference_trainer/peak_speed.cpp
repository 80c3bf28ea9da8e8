#include "reference_trainer/peak_speed.hpp"

#include "model/gpu_kind.hpp"

namespace lockstep {

std::optional<double> peak_tflops(const std::string& device_name, Precision precision) {
  const GpuKind* const kind = gpu_kind_of(device_name, std::nullopt);
  if (kind == nullptr) return std::nullopt;
  if (precision == Precision::fp32) return kind->single_tflops;
  return precision == Precision::tf32 ? kind->tf32_tflops : kind->half_tflops;
}

}  // namespace lockstep
