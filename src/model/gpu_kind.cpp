#include "model/gpu_kind.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

namespace lockstep {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;

// Share of the peak in large products: 0.68 was fitted on an H200 (GPT-2, bf16, always at its 700
// W); an A100 has power to spare and reaches 0.8 (llm.c's 231k tokens/s of GPT-2 124M on each of
// 8). Where nothing was measured 0.7. The first of several with one name is meant where no memory
// is said.
constexpr std::array kKinds = {
    GpuKind{"B200-180GB", "B200", 179 * kGiB, 2250, 1125, 80, 8 * kTera, 900 * kGiga, 64 * kGiga,
            0.65},
    GpuKind{"H200-141GB", "H200", 140.4 * kGiB, 989.5, 494.7, 67, 4.8 * kTera, 450 * kGiga,
            64 * kGiga, 0.68},
    GpuKind{"GH200-96GB", "GH200", 95.6 * kGiB, 989.5, 494.7, 67, 4 * kTera, 450 * kGiga,
            64 * kGiga, 0.68},
    GpuKind{"H100-80GB", "H100", 79.6 * kGiB, 989.5, 494.7, 67, 3.35 * kTera, 450 * kGiga,
            64 * kGiga, 0.65},
    GpuKind{"H100-NVL-94GB", "H100 NVL", 93.1 * kGiB, 835.5, 417.8, 60, 3.9 * kTera, 300 * kGiga,
            64 * kGiga, 0.6},
    GpuKind{"H100-PCIe-80GB", "H100 PCIe", 79.6 * kGiB, 756.5, 378, 51, 2 * kTera, 0, 64 * kGiga,
            0.6},
    GpuKind{"A100-80GB", "A100-SXM4-80GB", 79.2 * kGiB, 312, 156, 19.5, 2.04 * kTera, 300 * kGiga,
            32 * kGiga, 0.8},
    GpuKind{"A100-40GB", "A100-SXM4-40GB", 39.6 * kGiB, 312, 156, 19.5, 1.56 * kTera, 300 * kGiga,
            32 * kGiga, 0.8},
    GpuKind{"A100-PCIe-80GB", "A100 80GB PCIe", 79.2 * kGiB, 312, 156, 19.5, 1.94 * kTera, 0,
            32 * kGiga, 0.72},
    GpuKind{"A100-PCIe-40GB", "A100-PCIE-40GB", 39.6 * kGiB, 312, 156, 19.5, 1.56 * kTera, 0,
            32 * kGiga, 0.72},
    GpuKind{"L40S-48GB", "L40S", 45 * kGiB, 362, 183, 91.6, 864 * kGiga, 0, 32 * kGiga, 0.6},
    GpuKind{"L40-48GB", "L40", 45 * kGiB, 181, 90.5, 90.5, 864 * kGiga, 0, 32 * kGiga, 0.7},
    GpuKind{"L4-24GB", "L4", 22.5 * kGiB, 121, 60, 30.3, 300 * kGiga, 0, 16 * kGiga, 0.5},
    GpuKind{"A40-48GB", "A40", 45 * kGiB, 149.7, 74.8, 37.4, 696 * kGiga, 56 * kGiga, 32 * kGiga,
            0.7},
    GpuKind{"A30-24GB", "A30", 23.9 * kGiB, 165, 82, 10.3, 933 * kGiga, 100 * kGiga, 32 * kGiga,
            0.7},
    GpuKind{"A10G-24GB", "A10G", 22.5 * kGiB, 70, 35, 35, 600 * kGiga, 0, 32 * kGiga, 0.7},
    GpuKind{"A10-24GB", "A10", 22.5 * kGiB, 125, 62.5, 31.2, 600 * kGiga, 0, 32 * kGiga, 0.6},
    GpuKind{"RTX-A6000-48GB", "RTX A6000", 47.5 * kGiB, 154.8, 77.4, 38.7, 768 * kGiga, 56 * kGiga,
            32 * kGiga, 0.7},
    GpuKind{"RTX-6000-Ada-48GB", "RTX 6000 Ada", 47.5 * kGiB, 364, 182, 91.1, 960 * kGiga, 0,
            32 * kGiga, 0.6},
    GpuKind{"RTX-5090-32GB", "RTX 5090", 31.8 * kGiB, 209.5, 104.8, 104.8, 1.79 * kTera, 0,
            64 * kGiga, 0.8},
    GpuKind{"RTX-4090-24GB", "RTX 4090", 23.6 * kGiB, 165.2, 82.6, 82.6, 1.01 * kTera, 0,
            32 * kGiga, 0.8},
    GpuKind{"RTX-4080-16GB", "RTX 4080", 15.7 * kGiB, 97.5, 48.7, 48.7, 717 * kGiga, 0, 32 * kGiga,
            0.8},
    GpuKind{"RTX-3090-24GB", "RTX 3090", 23.7 * kGiB, 71, 35.5, 35.6, 936 * kGiga, 56 * kGiga,
            32 * kGiga, 0.8},
    GpuKind{"RTX-3080-10GB", "RTX 3080", 9.8 * kGiB, 59.5, 29.8, 29.8, 760 * kGiga, 0, 32 * kGiga,
            0.8},
    GpuKind{"V100-32GB", "V100-SXM2-32GB", 31.7 * kGiB, 125, 15.7, 15.7, 900 * kGiga, 150 * kGiga,
            16 * kGiga, 0.7, false},
    GpuKind{"V100-16GB", "V100-SXM2-16GB", 15.8 * kGiB, 125, 15.7, 15.7, 900 * kGiga, 150 * kGiga,
            16 * kGiga, 0.7, false},
    GpuKind{"RTX-2080-Ti-11GB", "RTX 2080 Ti", 10.8 * kGiB, 53.8, 13.4, 13.4, 616 * kGiga,
            50 * kGiga, 16 * kGiga, 0.7, false},
    GpuKind{"T4-16GB", "T4", 14.7 * kGiB, 65, 8.1, 8.1, 320 * kGiga, 0, 16 * kGiga, 0.4, false},
    GpuKind{"P100-16GB", "P100", 15.9 * kGiB, 18.7, 9.3, 9.3, 732 * kGiga, 80 * kGiga, 16 * kGiga,
            0.8, false},
};

// One core of a server's processor, and the loopback between ranks. Rough: a measured step corrects
// it.
constexpr GpuKind kVirtual{
    "virtual", "lockstep virtual GPU", 4 * kGiB, 0.1, 0.1, 0.1, 20 * kGiga, 0, 2 * kGiga, 1.0,
    false};

std::string folded(std::string_view text) {
  std::string word;
  for (const char c : text)
    if (c != ' ' && c != '-' && c != '_')
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (word.starts_with("nvidia")) word.erase(0, 6);
  return word;
}

// "NVIDIA H100 80GB HBM3" as "-nvidia-h100-80gb-hbm3-": whole words can be looked for.
std::string hyphened(std::string_view text) {
  std::string words = "-";
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      words += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (words.back() != '-')
      words += '-';
  }
  return words.back() == '-' ? words : words + "-";
}

}  // namespace

std::span<const GpuKind> gpu_kinds() { return kKinds; }

std::vector<std::string> gpu_kind_names() {
  std::vector<std::string> names;
  for (const GpuKind& kind : kKinds) names.emplace_back(kind.name);
  return names;
}

const GpuKind& virtual_gpu_kind() { return kVirtual; }

const GpuKind* gpu_kind_named(std::string_view name) {
  const std::string asked = folded(name);
  if (asked == kVirtual.name) return &kVirtual;
  for (const GpuKind& kind : kKinds)
    if (folded(kind.name) == asked) return &kind;
  // Without its memory, or without the RTX.
  for (const GpuKind& kind : kKinds) {
    const std::string whole = folded(kind.name);
    const std::string short_name(kind.name.substr(0, kind.name.rfind('-')));
    if (folded(short_name) == asked || whole == "rtx" + asked ||
        folded(short_name) == "rtx" + asked)
      return &kind;
  }
  return nullptr;
}

const GpuKind* gpu_kind_of(std::string_view driver_name, std::optional<double> memory_bytes) {
  const std::string seen = hyphened(driver_name);
  if (seen.find(hyphened(kVirtual.driver_word)) != std::string::npos) return &kVirtual;
  // The longest word that fits tells H100 PCIe from H100, and A10G from A10; memory tells the rest.
  const GpuKind* best = nullptr;
  for (const GpuKind& kind : kKinds) {
    if (seen.find(hyphened(kind.driver_word)) == std::string::npos) continue;
    if (best == nullptr || kind.driver_word.size() > best->driver_word.size()) best = &kind;
  }
  // names that hold the model but not the form: "A100-SXM-80GB", "Tesla V100-PCIE-32GB"
  if (best == nullptr) {
    for (const GpuKind& kind : kKinds) {
      const std::string model = hyphened(kind.name.substr(0, kind.name.find('-')));
      if (model == "-rtx-" || seen.find(model) == std::string::npos) continue;
      const auto distance = [&](const GpuKind& other) {
        return std::abs(other.memory_bytes - memory_bytes.value_or(other.memory_bytes));
      };
      if (best == nullptr || distance(kind) < distance(*best)) best = &kind;
    }
  }
  return best;
}

const GpuKind& gpu_kind_with_memory(double memory_bytes) {
  const GpuKind* best = &kKinds.front();
  const auto distance = [&](const GpuKind& kind) {
    return std::abs(kind.memory_bytes - memory_bytes);
  };
  for (const GpuKind& kind : kKinds) {
    if (!kind.has_bf16) continue;
    const bool nearer = distance(kind) < 0.98 * distance(*best) - kGiB;
    const bool as_near_and_slower =
        distance(kind) < distance(*best) + 3 * kGiB && kind.half_tflops < best->half_tflops;
    if (nearer || as_near_and_slower) best = &kind;
  }
  return *best;
}

double reachable_link_bytes_s(const GpuKind& kind) {
  // by NCCL's rings, of all links one way: 230 of 300 GB/s on A100s, 340 of 450 on H100s
  constexpr double kNvlinkReached = 0.75;
  constexpr double kPcieReached = 0.4;  // over the host's memory
  return kind.nvlink_bytes_s > 0 ? kNvlinkReached * kind.nvlink_bytes_s
                                 : kPcieReached * kind.pcie_bytes_s;
}

}  // namespace lockstep
