// How GPUs that people own show themselves through NVML: what each counter is a mean over, and
// which are missing.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

namespace lockstep {

struct GpuModel {
  std::string_view name;     // as `virtual:2xNAME` takes it
  std::string_view as_what;  // behind "lockstep virtual GPU"
  std::chrono::milliseconds busy_window{};
  std::chrono::milliseconds power_window{};  // of nvmlDeviceGetPowerUsage; 0: at once
  std::chrono::milliseconds power_sample{};  // between entries of the power buffer; 0: it has none
  double power_limit_mw = 0;
  double boost_clock_mhz = 0;
};

// The first is what `virtual:2` is.
const std::vector<GpuModel>& gpu_models();
const GpuModel* gpu_model_named(std::string_view name);

// "2" or "2xRTX-3090". Nothing: it is neither.
struct VirtualRequest {
  int count = 0;
  const GpuModel* model = nullptr;  // null: the name is not known
  std::string_view name;
};
std::optional<VirtualRequest> parse_virtual_request(std::string_view text);

}  // namespace lockstep
