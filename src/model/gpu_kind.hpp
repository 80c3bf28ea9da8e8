// GPUs by name: how much they hold, how fast they compute, read and talk. From NVIDIA's data
// sheets.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct GpuKind {
  std::string_view name;         // as `--gpus 8xNAME` takes it
  std::string_view driver_word;  // what the driver's own name for it holds; empty: none does
  double memory_bytes = 0;       // as the driver counts it, before anybody uses it
  double half_tflops = 0;        // bf16 and fp16 in matrix units, dense; fp16 alone before Ampere
  double tf32_tflops = 0;        // that of fp32 where there is none
  double single_tflops = 0;
  double memory_bytes_s = 0;
  double nvlink_bytes_s = 0;  // one way, all links of one GPU; 0: it has none
  double pcie_bytes_s = 0;    // one way, 16 lanes
  // of half_tflops that large matrix products reach at the card's power limit
  double large_product_share = 0;
  bool has_bf16 = true;
};

std::span<const GpuKind> gpu_kinds();
std::vector<std::string> gpu_kind_names();

// "H100-80GB", "h100", "A100-40GB": any case. Nothing: unknown.
const GpuKind* gpu_kind_named(std::string_view name);
// By the name that the driver gives, and its memory where several kinds have one name. Nothing:
// unknown.
const GpuKind* gpu_kind_of(std::string_view driver_name, std::optional<double> memory_bytes);
// The slowest kind with about so much memory, for a GPU of which only that is known.
const GpuKind& gpu_kind_with_memory(double memory_bytes);

// What a collective reaches between GPUs of this kind within a node: over NVLink where it has one,
// else over PCIe.
double reachable_link_bytes_s(const GpuKind& kind);

// One core of a processor that stands for a GPU.
const GpuKind& virtual_gpu_kind();
inline bool is_virtual(const GpuKind& kind) { return kind.name == virtual_gpu_kind().name; }

}  // namespace lockstep
