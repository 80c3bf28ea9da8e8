#include "kernels/kernel_type.hpp"

#include <algorithm>
#include <array>

namespace lockstep {
namespace {

template <std::size_t N>
bool begins_with_one_of(std::string_view name, const std::array<std::string_view, N>& words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return name.starts_with(word); });
}

template <std::size_t N>
bool contains_one_of(std::string_view name, const std::array<std::string_view, N>& words) {
  return std::ranges::any_of(
      words, [&](std::string_view word) { return name.find(word) != std::string_view::npos; });
}

}  // namespace

KernelType kernel_type(std::string_view name, TraceCategory category) {
  if (category == TraceCategory::copy || category == TraceCategory::set) return KernelType::memory;
  // MTIA: nobody else has described them
  if (category == TraceCategory::device_task) return kernel_type_like_hta(name);
  constexpr std::array<std::string_view, 4> kBegins = {"nccl", "rccl", "hccl", "mscclKernel"};
  constexpr std::array<std::string_view, 6> kWithin = {
      "ncclKernel", "ncclDevKernel",        "rcclKernel",
      "nvshmem",    "cross_device_reduce_", "multimem_all_reduce"};
  return begins_with_one_of(name, kBegins) || contains_one_of(name, kWithin)
             ? KernelType::communication
             : KernelType::compute;
}

KernelType kernel_type_like_hta(std::string_view name) {
  constexpr std::array<std::string_view, 3> kCommunication = {"nccl", "hip", "hccl"};
  constexpr std::array<std::string_view, 3> kMemory = {"Memcpy", "Memset", "dma"};
  constexpr std::array<std::string_view, 4> kNoCompute = {"Memcpy", "Memset", "dma", "Sync"};
  constexpr std::array<std::string_view, 7> kTasks = {"Stream Wait Event",
                                                      "runFunction",
                                                      "job_exe",
                                                      "packet",
                                                      "pe_exe",
                                                      "cpum_exe_subgraph",
                                                      "collective_subgraph_execution"};
  if (begins_with_one_of(name, kCommunication) || name.find("ncclKernel") != std::string_view::npos)
    return KernelType::communication;
  if (begins_with_one_of(name, kMemory)) return KernelType::memory;
  const bool launches =
      name.starts_with("cuda") && name.find("LaunchKernel", 4) != std::string_view::npos;
  return contains_one_of(name, kNoCompute) || begins_with_one_of(name, kTasks) || launches
             ? KernelType::other
             : KernelType::compute;
}

}  // namespace lockstep
