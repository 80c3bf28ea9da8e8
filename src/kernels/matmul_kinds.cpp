#include "kernels/matmul_kinds.hpp"

#include <algorithm>
#include <array>

namespace lockstep {

MatmulKind matmul_kind(std::string_view kernel) {
  const std::string_view name = kernel.substr(0, kernel.find('('));
  const auto has_one_of = [&](const auto& words) {
    return std::ranges::any_of(
        words, [&](std::string_view word) { return name.find(word) != std::string_view::npos; });
  };
  // Libraries whose products are made of tensor core instructions and nothing else.
  constexpr std::array<std::string_view, 7> kAlways = {
      "tensorop", "nvjet", "flash_fwd", "flash_bwd", "fmha_", "wgmma", "hmma"};
  // Within a product's name: shapes of those instructions (m8n8k4, m16n8k8, m16n8k16), and formats
  // that only they take.
  constexpr std::array<std::string_view, 8> kShapes = {"884",  "1688", "16816", "16832",
                                                       "tf32", "bf16", "f16",   "fp16"};
  constexpr std::array<std::string_view, 4> kProducts = {"gemm", "cudnn", "conv", "xmma"};
  constexpr std::array<std::string_view, 8> kPlain = {
      "sgemm",    "simt",  "scudnn", "ffma", "dgrad_engine<float", "wgrad_alg0_engine<float",
      "winograd", "gemmSN"};
  if (name.find("elementwise") != std::string_view::npos) return MatmulKind::none;
  if (has_one_of(kAlways) || (has_one_of(kProducts) && has_one_of(kShapes)))
    return MatmulKind::tensor_cores;
  return has_one_of(kPlain) ? MatmulKind::plain : MatmulKind::none;
}

}  // namespace lockstep
