#include "virtual_nvml/gpu_model.hpp"

#include <algorithm>
#include <cctype>

#include "base/text.hpp"
#include "lockstep/virtual_driver.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

bool same_but_for_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

const std::vector<GpuModel>& gpu_models() {
  // NVML's reference (nvmlUtilization_t, nvmlDeviceGetPowerUsage): utilization is a mean over 1/6 s
  // to 1 s, by product; power is a mean over 1 s on Ampere and later, but for GA100, which gives it
  // at once; sample buffers are promised for fully supported devices, which GeForce cards are not.
  // An H200 was measured at 200 ms, with a buffer of 20 ms samples. Where a product's own window is
  // not known, it has the longest that NVML allows. Of an A100 only a quarter of the time is seen
  // by its power sensor, 25 of every 100 ms (arXiv 2312.02741).
  static const std::vector<GpuModel> models = {
      {kVirtualModels[0], "", 200ms, 1000ms, 20ms, 300'000, 1980},
      {kVirtualModels[1], " as H100", 200ms, 1000ms, 20ms, 700'000, 1980},
      {kVirtualModels[2], " as A100-40GB", 167ms, 0ms, 100ms, 400'000, 1410},
      {kVirtualModels[3], " as RTX 4090", 1000ms, 1000ms, 0ms, 450'000, 2520},
      {kVirtualModels[4], " as RTX 3090", 1000ms, 1000ms, 0ms, 350'000, 1695},
  };
  return models;
}

const GpuModel* gpu_model_named(std::string_view name) {
  for (const GpuModel& model : gpu_models())
    if (same_but_for_case(model.name, name)) return &model;
  return nullptr;
}

std::optional<VirtualRequest> parse_virtual_request(std::string_view text) {
  const auto times = text.find_first_of("xX");
  const auto count = parse_integer(text.substr(0, times));
  if (!count) return std::nullopt;
  VirtualRequest request;
  request.count = static_cast<int>(std::clamp<std::int64_t>(*count, -1, 1 << 20));
  request.name =
      times == std::string_view::npos ? gpu_models().front().name : text.substr(times + 1);
  request.model = gpu_model_named(request.name);
  return request;
}

}  // namespace lockstep
