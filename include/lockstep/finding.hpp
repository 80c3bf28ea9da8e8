// The findings lockstep can make: their codes, their names, and what one carries.
//
// A code is never reused. Families: P split of work, D data, S host, C collectives, B batch, memory
// and precision, H hardware, X code and configuration, L launch.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/advice.hpp"

namespace lockstep {

enum class FindingCode : std::uint16_t {
  taking_turns,
  one_gpu_leads,
  idle_gpus,
  ranks_share_a_gpu,
  unsynchronised_copies,
  pipeline_bubbles,
  input_starved,
  loader_without_workers,
  pageable_copies,
  unsharded_data,
  set_epoch_missing,
  workers_restarted_each_epoch,
  host_sync_every_step,
  logging_too_often,
  checkpoint_stall,
  evaluation_stall,
  launch_bound,
  stopped_by_collector,
  straggler_rank,
  exposed_collectives,
  sync_every_micro_step,
  find_unused_parameters,
  slow_link,
  stuck_collective,
  rank_conditional_collective,
  gloo_on_gpus,
  reduce_every_step,
  batch_too_small,
  memory_nearly_full,
  tensor_cores_unused,
  accumulation_too_high,
  unfused_optimizer,
  out_of_memory,
  allocator_thrash,
  power_capped,
  thermal_throttle,
  pcie_degraded,
  ecc_or_xid,
  gpu_lost,
  world_size_not_set,
  unknown_training_argument,
  unknown_accelerate_field,
  accumulation_not_divisible,
  same_seed_every_rank,
  uneven_batches,
  every_rank_saves,
  harmful_environment,
  cpu_oversubscribed,
  rank_as_device,
  checkpoint_not_portable,
  legacy_launcher,
  compile_before_ddp,
  accumulation_boundary,
  clip_before_unscale,
  unwrapped_module_called,
  unreduced_metric,
  port_in_use,
  gpu_held_by_others,
  shared_memory_small,
  host_name_unresolvable,
  more_ranks_than_gpus,
  ranks_missing,
  nested_launch,
  nccl_timeout,
};

struct FindingName {
  FindingCode code;
  std::string_view id;    // "P101"
  std::string_view name;  // "taking-turns"
};

inline constexpr std::array kFindingNames = {
    FindingName{FindingCode::taking_turns, "P101", "taking-turns"},
    FindingName{FindingCode::one_gpu_leads, "P102", "one-gpu-leads"},
    FindingName{FindingCode::idle_gpus, "P103", "idle-gpus"},
    FindingName{FindingCode::ranks_share_a_gpu, "P104", "ranks-share-a-gpu"},
    FindingName{FindingCode::unsynchronised_copies, "P105", "unsynchronised-copies"},
    FindingName{FindingCode::pipeline_bubbles, "P106", "pipeline-bubbles"},
    FindingName{FindingCode::input_starved, "D201", "input-starved"},
    FindingName{FindingCode::loader_without_workers, "D202", "loader-without-workers"},
    FindingName{FindingCode::pageable_copies, "D203", "pageable-copies"},
    FindingName{FindingCode::unsharded_data, "D204", "unsharded-data"},
    FindingName{FindingCode::set_epoch_missing, "D205", "set-epoch-missing"},
    FindingName{FindingCode::workers_restarted_each_epoch, "D206", "workers-restarted-each-epoch"},
    FindingName{FindingCode::host_sync_every_step, "S301", "host-sync-every-step"},
    FindingName{FindingCode::logging_too_often, "S302", "logging-too-often"},
    FindingName{FindingCode::checkpoint_stall, "S303", "checkpoint-stall"},
    FindingName{FindingCode::evaluation_stall, "S304", "evaluation-stall"},
    FindingName{FindingCode::launch_bound, "S305", "launch-bound"},
    FindingName{FindingCode::stopped_by_collector, "S306", "stopped-by-collector"},
    FindingName{FindingCode::straggler_rank, "C401", "straggler-rank"},
    FindingName{FindingCode::exposed_collectives, "C402", "exposed-collectives"},
    FindingName{FindingCode::sync_every_micro_step, "C403", "sync-every-micro-step"},
    FindingName{FindingCode::find_unused_parameters, "C404", "find-unused-parameters"},
    FindingName{FindingCode::slow_link, "C405", "slow-link"},
    FindingName{FindingCode::stuck_collective, "C406", "stuck-collective"},
    FindingName{FindingCode::rank_conditional_collective, "C407", "rank-conditional-collective"},
    FindingName{FindingCode::gloo_on_gpus, "C408", "gloo-on-gpus"},
    FindingName{FindingCode::reduce_every_step, "C409", "reduce-every-step"},
    FindingName{FindingCode::batch_too_small, "B501", "batch-too-small"},
    FindingName{FindingCode::memory_nearly_full, "B502", "memory-nearly-full"},
    FindingName{FindingCode::tensor_cores_unused, "B503", "tensor-cores-unused"},
    FindingName{FindingCode::accumulation_too_high, "B504", "accumulation-too-high"},
    FindingName{FindingCode::unfused_optimizer, "B505", "unfused-optimizer"},
    FindingName{FindingCode::out_of_memory, "B506", "out-of-memory"},
    FindingName{FindingCode::allocator_thrash, "B507", "allocator-thrash"},
    FindingName{FindingCode::power_capped, "H601", "power-capped"},
    FindingName{FindingCode::thermal_throttle, "H602", "thermal-throttle"},
    FindingName{FindingCode::pcie_degraded, "H603", "pcie-degraded"},
    FindingName{FindingCode::ecc_or_xid, "H604", "ecc-or-xid"},
    FindingName{FindingCode::gpu_lost, "H605", "gpu-lost"},
    FindingName{FindingCode::world_size_not_set, "X701", "world-size-not-set"},
    FindingName{FindingCode::unknown_training_argument, "X702", "unknown-training-argument"},
    FindingName{FindingCode::unknown_accelerate_field, "X703", "unknown-accelerate-field"},
    FindingName{FindingCode::accumulation_not_divisible, "X704", "accumulation-not-divisible"},
    FindingName{FindingCode::same_seed_every_rank, "X705", "same-seed-every-rank"},
    FindingName{FindingCode::uneven_batches, "X706", "uneven-batches"},
    FindingName{FindingCode::every_rank_saves, "X707", "every-rank-saves"},
    FindingName{FindingCode::harmful_environment, "X708", "harmful-environment"},
    FindingName{FindingCode::cpu_oversubscribed, "X709", "cpu-oversubscribed"},
    FindingName{FindingCode::rank_as_device, "X710", "rank-as-device"},
    FindingName{FindingCode::checkpoint_not_portable, "X711", "checkpoint-not-portable"},
    FindingName{FindingCode::legacy_launcher, "X712", "legacy-launcher"},
    FindingName{FindingCode::compile_before_ddp, "X713", "compile-before-ddp"},
    FindingName{FindingCode::accumulation_boundary, "X714", "accumulation-boundary"},
    FindingName{FindingCode::clip_before_unscale, "X715", "clip-before-unscale"},
    FindingName{FindingCode::unwrapped_module_called, "X716", "unwrapped-module-called"},
    FindingName{FindingCode::unreduced_metric, "X717", "unreduced-metric"},
    FindingName{FindingCode::port_in_use, "L801", "port-in-use"},
    FindingName{FindingCode::gpu_held_by_others, "L802", "gpu-held-by-others"},
    FindingName{FindingCode::shared_memory_small, "L803", "shared-memory-small"},
    FindingName{FindingCode::host_name_unresolvable, "L804", "host-name-unresolvable"},
    FindingName{FindingCode::more_ranks_than_gpus, "L805", "more-ranks-than-gpus"},
    FindingName{FindingCode::ranks_missing, "L806", "ranks-missing"},
    FindingName{FindingCode::nested_launch, "L807", "nested-launch"},
    FindingName{FindingCode::nccl_timeout, "L808", "nccl-timeout"},
};

// The table is in the order of the enumeration, so that a code is also its row.
consteval bool finding_names_are_in_order() {
  for (std::size_t row = 0; row < kFindingNames.size(); ++row)
    if (static_cast<std::size_t>(kFindingNames[row].code) != row) return false;
  return true;
}
static_assert(finding_names_are_in_order());
static_assert(kFindingNames.size() == static_cast<std::size_t>(FindingCode::nccl_timeout) + 1);

constexpr const FindingName& name_of(FindingCode code) {
  return kFindingNames[static_cast<std::size_t>(code)];
}

enum class Severity : std::uint8_t { info, warning, critical };

// One number that speaks for a finding, with the line it crossed.
struct Evidence {
  std::string signal;
  double value = 0;
  std::optional<double> threshold;
  std::string unit;
};

struct SourceLine {
  std::string file;
  int line = 0;
};

// GPUs of one machine among several, by their numbers there.
struct HostGpus {
  std::string host;
  std::vector<int> gpus;

  bool operator==(const HostGpus&) const = default;
};

struct Finding {
  FindingCode code = FindingCode::taking_turns;
  Severity severity = Severity::warning;
  double confidence = 0;  // 0..1
  // share of the possible throughput that this finding alone would give back
  double lost_throughput = 0;
  bool is_fault = false;  // wrong whatever it costs
  // another finding of the same report whose loss this one explains: counted once
  std::optional<FindingCode> cause_of;
  std::vector<int> gpus;
  std::vector<HostGpus> hosts;  // the same GPUs, where several machines were watched
  std::vector<int> pids;
  std::vector<int> ranks;
  std::vector<SourceLine> where;
  // of the evidence ladder: 0 from outside, 1 by probes in the processes, 2 by the GPU's own
  // records
  int rung = 0;
  std::string reason;  // of a finding in code: why the lines hold the GPUs back
  std::vector<Evidence> evidence;
  std::vector<Fix> fixes;
};

}  // namespace lockstep
