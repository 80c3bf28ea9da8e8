// What is trained, and by which program: the question that memory and time are computed for.
#pragma once

#include <cstdint>
#include <vector>

#include "model/architecture.hpp"

namespace lockstep {

enum class NumberFormat : std::uint8_t { fp32, tf32, bf16, fp16 };
inline bool is_half(NumberFormat format) {
  return format == NumberFormat::bf16 || format == NumberFormat::fp16;
}

enum class TrainingMethod : std::uint8_t {
  full,   // every weight, fp32 masters under autocast
  lora,   // half-precision weights that rest, small matrices beside them
  qlora,  // the same with 4-bit weights
};

enum class OptimizerKind : std::uint8_t { adamw, adamw_8bit, sgd };

// The program decides how much forward keeps and how often memory is walked through.
enum class TrainingProgram : std::uint8_t {
  pytorch,
  pytorch_compiled,
  lockstep_fused,
  lockstep_plain,
  lockstep_cpu
};

struct Workload {
  Architecture net;
  TrainingMethod method = TrainingMethod::full;
  std::int64_t lora_rank = 16;
  std::vector<Architecture> frozen;     // more nets that only run forward, in half precision
  double extra_trained_parameters = 0;  // small parts beside the nets
  std::int64_t sequence_length = 1024;
  NumberFormat format = NumberFormat::bf16;
  OptimizerKind optimizer = OptimizerKind::adamw;
  TrainingProgram program = TrainingProgram::pytorch;
  double dropout = 0;
};

}  // namespace lockstep
