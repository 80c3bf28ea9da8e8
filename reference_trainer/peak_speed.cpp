#include "reference_trainer/peak_speed.hpp"

namespace lockstep {
namespace {

struct Peak {
  const char* part_of_name;
  double half;  // bf16 and fp16, dense
  double tf32;
  double single;
};
// NVIDIA's data sheets. The longer name first where one holds the other.
constexpr Peak kPeaks[] = {
    {"B200", 2250, 1125, 80},   {"H200", 989.5, 494.7, 67}, {"H100 NVL", 835.5, 417.8, 60}, {"H100 PCIe", 756.5, 378, 51}, {"H100", 989.5, 494.7, 67}, {"GH200", 989.5, 494.7, 67},
    {"A100", 312, 156, 19.5},   {"L40S", 362, 183, 91.6},   {"A6000", 154.8, 77.4, 38.7},   {"A10", 125, 62.5, 31.2},      {"RTX 4090", 165.2, 82.6, 82.6}, {"RTX 3090", 71, 35.5, 35.6},
    {"V100", 125, 15.7, 15.7},  {"T4", 65, 8.1, 8.1},
};

}  // namespace

std::optional<double> peak_tflops(const std::string& device_name, Precision precision) {
  for (const Peak& peak : kPeaks) {
    if (device_name.find(peak.part_of_name) == std::string::npos) continue;
    if (precision == Precision::fp32) return peak.single;
    return precision == Precision::tf32 ? peak.tf32 : peak.half;
  }
  return std::nullopt;
}

}  // namespace lockstep
