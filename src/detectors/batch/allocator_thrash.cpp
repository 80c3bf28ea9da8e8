// B507: the caching allocator gives memory back to the driver and asks for it again.
//
// Why it shows: once training runs, PyTorch's allocator serves every request from what it holds.
// Retries (the cache was emptied because a request did not fit) and cudaMalloc calls in the steady
// state stop the GPU each time. A probe reads both counters. Confused with: the first seconds, in
// which the cache is filled (left out); torch.cuda.empty_cache() in the loop, which a profile shows
// as sync.
#include "detectors/all_detectors.hpp"
#include "detectors/probe_tools.hpp"

namespace lockstep {

std::vector<Finding> find_allocator_thrash(const Seen& seen) {
  constexpr double kAllocationsAtLeast = 1;  // a second
  // a cudaMalloc with its synchronisation, order of magnitude
  constexpr double kAllocationSeconds = 0.001;
  std::vector<Finding> findings;
  for (const JobSignals& job : seen.signals.jobs) {
    if (!job.settings || (job.settings->allocation_retries < 1 &&
                          job.settings->device_allocations_a_s < kAllocationsAtLeast))
      continue;
    Finding finding =
        about_job(FindingCode::allocator_thrash, job, Severity::warning, 0.85,
                  std::min(0.5, kAllocationSeconds * job.settings->device_allocations_a_s),
                  {{"allocation_retries", job.settings->allocation_retries, 1.0, "retries"},
                   {"device_allocations", job.settings->device_allocations_a_s, kAllocationsAtLeast,
                    "a second"}});
    finding.rung = 1;
    finding.is_fault = job.settings->allocation_retries >= 1;
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace lockstep
