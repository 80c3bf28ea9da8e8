// The table of detectors, and the rule that parts findings from suspicions.
#pragma once

#include <span>
#include <vector>

#include "lockstep/detector.hpp"

namespace lockstep {

std::span<const Detector> all_detectors();

// What every detector found, the costliest first.
std::vector<Finding> inspect_all(const Seen& seen);

void costliest_first(std::vector<Finding>& findings);

// lockstep stands behind a finding with confidence of at least 0.5 that costs at least 2 %, or that
// is a fault.
bool is_stood_behind(const Finding& finding);

std::vector<Finding> find_taking_turns(const Seen& seen);
std::vector<Finding> find_one_gpu_leads(const Seen& seen);
std::vector<Finding> find_idle_gpus(const Seen& seen);
std::vector<Finding> find_ranks_share_a_gpu(const Seen& seen);
std::vector<Finding> find_unsynchronised_copies(const Seen& seen);
std::vector<Finding> find_pipeline_bubbles(const Seen& seen);
std::vector<Finding> find_input_starved(const Seen& seen);
std::vector<Finding> find_loader_without_workers(const Seen& seen);
std::vector<Finding> find_pageable_copies(const Seen& seen);
std::vector<Finding> find_host_sync_every_step(const Seen& seen);
std::vector<Finding> find_logging_too_often(const Seen& seen);
std::vector<Finding> find_checkpoint_stall(const Seen& seen);
std::vector<Finding> find_evaluation_stall(const Seen& seen);
std::vector<Finding> find_launch_bound(const Seen& seen);
std::vector<Finding> find_stopped_by_collector(const Seen& seen);
std::vector<Finding> find_straggler_rank(const Seen& seen);
std::vector<Finding> find_exposed_collectives(const Seen& seen);
std::vector<Finding> find_sync_every_micro_step(const Seen& seen);
std::vector<Finding> find_slow_link(const Seen& seen);
std::vector<Finding> find_stuck_collective(const Seen& seen);
std::vector<Finding> find_gloo_on_gpus(const Seen& seen);
std::vector<Finding> find_reduce_every_step(const Seen& seen);
std::vector<Finding> find_batch_too_small(const Seen& seen);
std::vector<Finding> find_memory_nearly_full(const Seen& seen);
std::vector<Finding> find_tensor_cores_unused(const Seen& seen);
std::vector<Finding> find_power_capped(const Seen& seen);
std::vector<Finding> find_thermal_throttle(const Seen& seen);
std::vector<Finding> find_pcie_degraded(const Seen& seen);
std::vector<Finding> find_ecc_or_xid(const Seen& seen);
std::vector<Finding> find_gpu_lost(const Seen& seen);
std::vector<Finding> find_world_size_not_set(const Seen& seen);
std::vector<Finding> find_every_rank_saves(const Seen& seen);
std::vector<Finding> find_harmful_environment(const Seen& seen);
std::vector<Finding> find_cpu_oversubscribed(const Seen& seen);
std::vector<Finding> find_ranks_missing(const Seen& seen);
std::vector<Finding> find_unsharded_data(const Seen& seen);
std::vector<Finding> find_set_epoch_missing(const Seen& seen);
std::vector<Finding> find_uneven_batches(const Seen& seen);
std::vector<Finding> find_workers_restarted_each_epoch(const Seen& seen);
std::vector<Finding> find_find_unused_parameters(const Seen& seen);
std::vector<Finding> find_accumulation_too_high(const Seen& seen);
std::vector<Finding> find_unfused_optimizer(const Seen& seen);
std::vector<Finding> find_allocator_thrash(const Seen& seen);
std::vector<Finding> find_same_seed_every_rank(const Seen& seen);
std::vector<Finding> find_unreduced_metric(const Seen& seen);
std::vector<Finding> find_logged_messages(const Seen& seen);  // any code: in no row of the table

}  // namespace lockstep
