#include "detectors/all_detectors.hpp"

#include <algorithm>
#include <array>

namespace lockstep {
namespace {

constexpr std::array kDetectors = {
    Detector{FindingCode::taking_turns, find_taking_turns},
    Detector{FindingCode::one_gpu_leads, find_one_gpu_leads},
    Detector{FindingCode::idle_gpus, find_idle_gpus},
    Detector{FindingCode::ranks_share_a_gpu, find_ranks_share_a_gpu},
    Detector{FindingCode::unsynchronised_copies, find_unsynchronised_copies},
    Detector{FindingCode::pipeline_bubbles, find_pipeline_bubbles},
    Detector{FindingCode::input_starved, find_input_starved},
    Detector{FindingCode::loader_without_workers, find_loader_without_workers},
    Detector{FindingCode::pageable_copies, find_pageable_copies},
    Detector{FindingCode::host_sync_every_step, find_host_sync_every_step},
    Detector{FindingCode::logging_too_often, find_logging_too_often},
    Detector{FindingCode::checkpoint_stall, find_checkpoint_stall},
    Detector{FindingCode::evaluation_stall, find_evaluation_stall},
    Detector{FindingCode::launch_bound, find_launch_bound},
    Detector{FindingCode::stopped_by_collector, find_stopped_by_collector},
    Detector{FindingCode::straggler_rank, find_straggler_rank},
    Detector{FindingCode::exposed_collectives, find_exposed_collectives},
    Detector{FindingCode::sync_every_micro_step, find_sync_every_micro_step},
    Detector{FindingCode::slow_link, find_slow_link},
    Detector{FindingCode::stuck_collective, find_stuck_collective},
    Detector{FindingCode::gloo_on_gpus, find_gloo_on_gpus},
    Detector{FindingCode::reduce_every_step, find_reduce_every_step},
    Detector{FindingCode::batch_too_small, find_batch_too_small},
    Detector{FindingCode::memory_nearly_full, find_memory_nearly_full},
    Detector{FindingCode::tensor_cores_unused, find_tensor_cores_unused},
    Detector{FindingCode::power_capped, find_power_capped},
    Detector{FindingCode::thermal_throttle, find_thermal_throttle},
    Detector{FindingCode::pcie_degraded, find_pcie_degraded},
    Detector{FindingCode::ecc_or_xid, find_ecc_or_xid},
    Detector{FindingCode::gpu_lost, find_gpu_lost},
    Detector{FindingCode::world_size_not_set, find_world_size_not_set},
    Detector{FindingCode::every_rank_saves, find_every_rank_saves},
    Detector{FindingCode::harmful_environment, find_harmful_environment},
    Detector{FindingCode::cpu_oversubscribed, find_cpu_oversubscribed},
    Detector{FindingCode::ranks_missing, find_ranks_missing},
    Detector{FindingCode::unsharded_data, find_unsharded_data},
    Detector{FindingCode::set_epoch_missing, find_set_epoch_missing},
    Detector{FindingCode::uneven_batches, find_uneven_batches},
    Detector{FindingCode::workers_restarted_each_epoch, find_workers_restarted_each_epoch},
    Detector{FindingCode::find_unused_parameters, find_find_unused_parameters},
    Detector{FindingCode::accumulation_too_high, find_accumulation_too_high},
    Detector{FindingCode::unfused_optimizer, find_unfused_optimizer},
    Detector{FindingCode::allocator_thrash, find_allocator_thrash},
    Detector{FindingCode::same_seed_every_rank, find_same_seed_every_rank},
    Detector{FindingCode::unreduced_metric, find_unreduced_metric},
};

consteval bool each_code_once() {
  for (std::size_t i = 0; i < kDetectors.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (kDetectors[i].code == kDetectors[j].code) return false;
  return true;
}
static_assert(each_code_once());

// Wrong whatever it costs: hardware that fails, ranks that are not there, memory about to run out,
// settings that harm.
constexpr std::array kFaults = {FindingCode::ecc_or_xid,         FindingCode::gpu_lost,
                                FindingCode::ranks_missing,      FindingCode::stuck_collective,
                                FindingCode::memory_nearly_full, FindingCode::unsynchronised_copies,
                                FindingCode::ranks_share_a_gpu,  FindingCode::harmful_environment};

}  // namespace

std::span<const Detector> all_detectors() { return kDetectors; }

void costliest_first(std::vector<Finding>& findings) {
  std::ranges::stable_sort(findings, [](const Finding& a, const Finding& b) {
    return a.lost_throughput * a.confidence > b.lost_throughput * b.confidence;
  });
}

std::vector<Finding> inspect_all(const Seen& seen) {
  std::vector<Finding> findings;
  for (const Detector& detector : kDetectors)
    for (Finding& finding : detector.inspect(seen)) findings.push_back(std::move(finding));
  for (Finding& finding : find_logged_messages(seen)) findings.push_back(std::move(finding));
  // One line of a GPU's own fault, however many GPUs have it.
  std::vector<Finding> merged;
  for (Finding& finding : findings) {
    const auto same = std::ranges::find_if(merged, [&](const Finding& other) {
      const bool of_gpus = finding.code == FindingCode::thermal_throttle ||
                           finding.code == FindingCode::power_capped;
      return of_gpus && other.code == finding.code &&
             is_stood_behind(other) == is_stood_behind(finding);
    });
    if (same == merged.end()) {
      merged.push_back(std::move(finding));
      continue;
    }
    same->gpus.insert(same->gpus.end(), finding.gpus.begin(), finding.gpus.end());
    if (finding.lost_throughput > same->lost_throughput) {
      same->lost_throughput = finding.lost_throughput;
      same->severity = std::max(same->severity, finding.severity);
      same->evidence = std::move(finding.evidence);
    }
  }
  findings = std::move(merged);
  costliest_first(findings);
  return findings;
}

bool is_stood_behind(const Finding& finding) {
  constexpr double kSureEnough = 0.5;
  constexpr double kWorthwhile = 0.02;
  const bool fault = finding.is_fault || std::ranges::find(kFaults, finding.code) != kFaults.end();
  return finding.confidence >= kSureEnough && (fault || finding.lost_throughput >= kWorthwhile);
}

}  // namespace lockstep
