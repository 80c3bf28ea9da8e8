// B503: the GPU computes, and not on its tensor cores: everything runs in fp32 with TF32 off.
//
// Why it shows: GPM counts the cycles in which the tensor pipe is active. Training with bf16, fp16
// or TF32 shows 10 to 60 %; fp32 without TF32 shows next to none, while the SMs are full. Confused
// with: models with hardly any matrix products (embeddings, small convolutions). Blind: without GPM
// (before Hopper).
#include "detectors/all_detectors.hpp"
#include "detectors/finding_tools.hpp"

namespace lockstep {
namespace {

// What bf16 would save: products get as much faster as the GPU's table allows, and what waits for
// memory moves a bit more than half of the bytes. GPT-2 124M on an H200 with a memory activity of
// 0.12: 83 % by this, 83 % measured.
double loss_of(const GpuSignals& gpu) {
  // TF32 alone made GPT-2-like training 1.5 to 2 times as fast in published comparisons
  constexpr double kUnknownKind = 0.4;
  constexpr double kFullMemory = 0.7;  // activity of kernels that wait for memory alone
  constexpr double kBytesLeft = 0.6;
  if (!gpu.tensor_core_gain) return kUnknownKind;
  const double moves = std::min(1.0, gpu.dram.value_or(0.2) / kFullMemory);
  return 1 - ((1 - moves) / *gpu.tensor_core_gain + moves * kBytesLeft);
}

// Of the time: by the GPUs' own records, else as far as it shows from outside. NCCL's kernels fill
// SMs and multiply nothing: of two ranks on an H200 that computed for 62 %, 99 % looked like work.
double computing(const JobSignals& job) {
  if (!job.steps || !job.steps->devices || job.steps->devices->ranks.empty())
    return mean_working(job);
  double sum = 0;
  for (const RankDevices& rank : job.steps->devices->ranks)
    sum += rank.main() != nullptr ? rank.main()->computes : 0;
  return sum / static_cast<double>(job.steps->devices->ranks.size());
}

}  // namespace

std::vector<Finding> find_tensor_cores_unused(const Seen& seen) {
  constexpr double kSmAtLeast = 0.4;
  constexpr double kTensorAtMost = 0.01;
  // GPT-2 in fp32 on an H200 shows 0.028, for attention has some, at an SM activity of 0.96 and a
  // memory activity of 0.12: full, and not waiting for memory. A net that moves more than it
  // multiplies is not like that.
  constexpr double kLittleTensor = 0.05;
  constexpr double kFullSm = 0.7;
  constexpr double kQuietMemory = 0.3;
  // Products in fp32 draw more than half of an H200's power; a collective that waits for a rank
  // filled 47 % of its SMs at 129 W of 700.
  constexpr double kPowerOfProducts = 0.3;
  std::vector<Finding> findings;
  for (const JobSignals& job : seen.signals.jobs) {
    if (!trains(job)) continue;
    std::vector<int> unused;
    double sm = 0;
    double tensor = 0;
    double lost = 0;
    for (const GpuSignals& gpu : seen.signals.gpus) {
      if (!holds(job, gpu.index) || !gpu.sm || !gpu.tensor) continue;
      const bool computes_otherwise = *gpu.tensor <= kLittleTensor && *gpu.sm >= kFullSm &&
                                      gpu.dram.value_or(1) <= kQuietMemory;
      const bool waits = gpu.power_highest_mw && gpu.info.power_limit_mw &&
                         *gpu.power_highest_mw < kPowerOfProducts * *gpu.info.power_limit_mw;
      // Reading the model for a few words: products of one row need no tensor cores.
      constexpr double kWaitsForMemory = 0.6;
      const bool decodes = gpu.dram.value_or(0) > kWaitsForMemory;
      if (waits || decodes || *gpu.sm < kSmAtLeast ||
          (*gpu.tensor > kTensorAtMost && !computes_otherwise))
        continue;
      unused.push_back(gpu.index);
      sm = *gpu.sm;
      tensor = std::max(tensor, *gpu.tensor);
      lost += loss_of(gpu) / static_cast<double>(job.gpus.size());
    }
    if (unused.empty() || unused.size() < job.gpus.size()) continue;
    findings.push_back(about_job(
        FindingCode::tensor_cores_unused, job, Severity::warning,
        tensor <= kTensorAtMost ? 0.7 : 0.6, lost * computing(job),
        {{"tensor", tensor, tensor <= kTensorAtMost ? kTensorAtMost : kLittleTensor, "fraction"},
         {"sm", sm, kSmAtLeast, "fraction"}}));
  }
  return findings;
}

}  // namespace lockstep
