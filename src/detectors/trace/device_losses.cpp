// P101, P102 and B503 in a trace: GPUs of one process that take turns or follow one, and tensor
// cores that stand still.
//
// Why it shows: kernels carry their device, so turns are counted, not inferred. Matrix products
// carry the instructions they are made of in their names: sgemm and scudnn are plain fp32, s884,
// s1688 and tf32 are tensor cores. Blind: products of hand-written kernels (Triton) say nothing by
// their names.
#include <algorithm>
#include <numeric>

#include "detectors/trace/trace_detectors.hpp"

namespace lockstep {
namespace {

constexpr double kPlainShare = 0.2;
constexpr double kTensorAtMost = 0.1;
// of the products' time: mixed precision halves it at the least where they are large
constexpr double kTensorGain = 0.5;

void find_split(const SeenTrace& seen, std::vector<Finding>& findings) {
  if (!seen.trace.turns) return;
  const DeviceTurns& turns = *seen.trace.turns;
  const double sum = std::accumulate(turns.busy.begin(), turns.busy.end(), 0.0);
  const double most = *std::ranges::max_element(turns.busy);
  const auto count = static_cast<double>(turns.devices.size());
  if (seen.pattern == Pattern::taking_turns) {
    const double possible = 1 - 1 / count;
    findings.push_back(
        about_trace(FindingCode::taking_turns, seen, 0.98, possible,
                    {{"exclusive_busy", turns.exclusive, 0.8, "fraction"},
                     {"hand_overs", static_cast<double>(turns.hand_overs), std::nullopt, "number"},
                     {"busy_sum", sum, 1.25, "GPUs"}}));
  } else if (seen.pattern == Pattern::one_leads) {
    findings.push_back(
        about_trace(FindingCode::one_gpu_leads, seen, 0.9,
                    std::clamp(1 - sum / (count * std::max(most, 0.01)) + 0.1, 0.1, 0.5),
                    {{"busiest_gpu", most, std::nullopt, "fraction"},
                     {"mean_gpu", sum / count, std::nullopt, "fraction"}}));
  }
}

void find_plain_products(const SeenTrace& seen, std::vector<Finding>& findings) {
  const TraceSignals& trace = seen.trace;
  if (!trace.has_tensor_cores || trace.plain_matmul_share < kPlainShare ||
      trace.tensor_core_share > kTensorAtMost)
    return;
  double computes = 0;
  for (const TraceRankSignals& rank : trace.ranks) computes = std::max(computes, rank.computes);
  findings.push_back(
      about_trace(FindingCode::tensor_cores_unused, seen, 0.85,
                  trace.plain_matmul_share * computes * kTensorGain,
                  {{"plain_fp32_products", trace.plain_matmul_share, kPlainShare, "fraction"},
                   {"tensor_core_products", trace.tensor_core_share, kTensorAtMost, "fraction"}}));
}

}  // namespace

void find_device_losses(const SeenTrace& seen, std::vector<Finding>& findings) {
  find_split(seen, findings);
  find_plain_products(seen, findings);
}

}  // namespace lockstep
