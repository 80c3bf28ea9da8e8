// P104: two ranks of one job run on one GPU, while each should have its own.
//
// Why it shows: the process list has two processes of one job whose main memory lies on the same
// GPU. It happens when a script uses cuda:0 in every rank, or takes RANK where LOCAL_RANK is meant.
// Confused with: the small context that ranks open on GPU 0 beside their own (left out by its
// size), several ranks on a GPU on purpose (MPS, MIG slices have their own index).
#include <map>

#include "detectors/all_detectors.hpp"
#include "detectors/finding_tools.hpp"

namespace lockstep {
namespace {

std::optional<int> main_gpu(const ProcessSample& process) {
  const bool unknown =
      std::ranges::any_of(process.gpus, [](const ProcessOnGpu& use) { return !use.memory_bytes; });
  // which of them is its own cannot be told
  if (process.gpus.size() > 1 && unknown) return std::nullopt;
  const ProcessOnGpu* largest = nullptr;
  for (const ProcessOnGpu& use : process.gpus)
    if (largest == nullptr || use.memory_bytes.value_or(0) > largest->memory_bytes.value_or(0))
      largest = &use;
  return largest == nullptr ? std::nullopt : std::optional(largest->index);
}

// A child of mp.spawn is a rank though none is set; the parent that spawned it is none, even where
// it holds a GPU.
bool is_rank(const ProcessSample& process) {
  if (process.rank) return true;
  return process.command && std::ranges::any_of(*process.command, [](const std::string& word) {
           return word.find("multiprocessing.spawn") != std::string::npos;
         });
}

}  // namespace

std::vector<Finding> find_ranks_share_a_gpu(const Seen& seen) {
  std::vector<Finding> findings;
  for (const JobSignals& job : seen.signals.jobs) {
    const auto ranks_here = static_cast<double>(std::ranges::count_if(job.processes, is_rank));
    if (ranks_here < 2) continue;
    std::map<int, std::vector<const ProcessSample*>> on_gpu;
    for (const ProcessSample& process : job.processes)
      if (const auto gpu = main_gpu(process); gpu && is_rank(process))
        on_gpu[*gpu].push_back(&process);
    std::vector<int> shared;
    std::size_t most = 1;
    for (const auto& [gpu, ranks] : on_gpu) {
      if (ranks.size() < 2) continue;
      shared.push_back(gpu);
      most = std::max(most, ranks.size());
    }
    if (shared.empty()) continue;
    const double used = static_cast<double>(on_gpu.size());
    Finding finding = about_job(FindingCode::ranks_share_a_gpu, job, Severity::critical, 0.9,
                                1 - used / ranks_here,
                                {{"ranks_on_one_gpu", static_cast<double>(most), 1.0, "ranks"}});
    finding.gpus = shared;
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace lockstep
