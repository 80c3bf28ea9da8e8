#include "training/faults.hpp"

#include <algorithm>
#include <array>

namespace lockstep {
namespace {

using enum FaultSeenBy;

constexpr std::array kFaults = {
    FaultRow{TrainFault::slow_rank, "slow-rank", FindingCode::straggler_rank, outside,
             "the last rank computes longer in every step"},
    FaultRow{TrainFault::slow_loader, "slow-loader", FindingCode::input_starved, outside,
             "batches take longer than steps"},
    FaultRow{TrainFault::no_workers, "no-workers", FindingCode::loader_without_workers, outside,
             "the training thread makes the batches itself"},
    FaultRow{TrainFault::checkpoint_often, "checkpoint-often", FindingCode::checkpoint_stall,
             outside, "every few seconds all wait while rank 0 writes"},
    FaultRow{TrainFault::rank0_evaluates, "rank0-evaluates", FindingCode::evaluation_stall, outside,
             "every few seconds all wait while rank 0 evaluates"},
    FaultRow{TrainFault::hang, "hang", FindingCode::stuck_collective, outside,
             "rank 0 alone enters a collective, and nobody gets on"},
    FaultRow{TrainFault::throttled_rank, "throttled-rank", FindingCode::thermal_throttle, outside,
             "the last rank's GPU is hot, and slow (virtual GPUs)"},
    FaultRow{TrainFault::one_device, "one-device", FindingCode::ranks_share_a_gpu, outside,
             "all ranks work on device 0"},
    FaultRow{TrainFault::unsynchronised, "unsynchronised", FindingCode::unsynchronised_copies,
             outside, "every process trains a model of its own"},
    FaultRow{TrainFault::log_each_step, "log-each-step", FindingCode::logging_too_often, step_marks,
             "a line is written and flushed to the disk in every step"},
    FaultRow{TrainFault::sync_each_step, "sync-each-step", FindingCode::host_sync_every_step,
             step_marks, "the host reads values back in every step"},
    FaultRow{TrainFault::sync_each_pass, "sync-each-pass", FindingCode::sync_every_micro_step,
             step_marks, "gradients are averaged in every pass of an accumulation"},
    FaultRow{TrainFault::reduce_each_step, "reduce-each-step", FindingCode::reduce_every_step,
             step_marks, "a metric is averaged over ranks, and all wait for all, in every step"},
    FaultRow{TrainFault::collector_pauses, "collector-pauses", FindingCode::stopped_by_collector,
             step_marks, "now and then a rank stops, each at another step"},
    FaultRow{TrainFault::tiny_buckets, "tiny-buckets", FindingCode::exposed_collectives, step_marks,
             "every gradient travels alone"},
    FaultRow{TrainFault::find_unused, "find-unused", FindingCode::find_unused_parameters,
             step_marks, "unused parameters are looked for, and there are none"},
    FaultRow{TrainFault::small_passes, "small-passes", FindingCode::accumulation_too_high,
             step_marks, "many passes of one sample an update, with memory to spare"},
    FaultRow{TrainFault::every_rank_saves, "every-rank-saves", FindingCode::every_rank_saves,
             step_marks, "every rank writes the checkpoint"},
    FaultRow{TrainFault::same_seeds, "same-seeds", FindingCode::same_seed_every_rank, step_marks,
             "all ranks draw the same random numbers"},
    FaultRow{TrainFault::unsharded, "unsharded", FindingCode::unsharded_data, step_marks,
             "all ranks train on the same samples"},
    FaultRow{TrainFault::same_order, "same-order", FindingCode::set_epoch_missing, step_marks,
             "every epoch has the order of the first"},
    FaultRow{TrainFault::uneven_batches, "uneven-batches", FindingCode::uneven_batches, step_marks,
             "rank 0 has more batches than the others"},
    FaultRow{TrainFault::pageable, "pageable", FindingCode::pageable_copies, gpu,
             "batches lie in memory that the GPU cannot read by itself"},
    FaultRow{TrainFault::fp32, "fp32", FindingCode::tensor_cores_unused, gpu,
             "fp32 without TF32: the tensor cores rest"},
    FaultRow{TrainFault::launch_bound, "launch-bound", FindingCode::launch_bound, gpu,
             "kernels so small that the host cannot start them fast enough"},
};

constexpr auto kNames = [] {
  std::array<std::string_view, kFaults.size() + 1> names = {"none"};
  for (std::size_t i = 0; i < kFaults.size(); ++i) names[i + 1] = kFaults[i].name;
  return names;
}();

}  // namespace

std::string_view name_of(FaultSeenBy by) {
  return by == outside ? "outside" : by == step_marks ? "step marks" : "GPU";
}

std::span<const FaultRow> all_faults() { return kFaults; }

std::span<const std::string_view> fault_names() { return kNames; }

const FaultRow* fault_named(std::string_view name) {
  const auto found =
      std::ranges::find_if(kFaults, [&](const FaultRow& row) { return row.name == name; });
  return found == kFaults.end() ? nullptr : &*found;
}

void set_fault(TrainSettings& settings) {
  const FaultRow* const row = fault_named(settings.fault);
  if (row == nullptr) return;
  switch (row->fault) {
    case TrainFault::slow_loader: settings.workers = 1; break;
    case TrainFault::no_workers: settings.workers = 0; break;
    case TrainFault::one_device:
      settings.share_devices = true;
      settings.devices = 1;
      break;
    case TrainFault::tiny_buckets: settings.bucket_mb = settings.first_bucket_mb = 0.001; break;
    case TrainFault::find_unused: settings.find_unused = true; break;
    case TrainFault::sync_each_pass:
      settings.accumulation = std::max<std::int64_t>(settings.accumulation, 4);
      break;
    case TrainFault::small_passes:
      settings.accumulation = settings.batch_size * settings.accumulation;
      settings.batch_size = 1;
      break;
    case TrainFault::uneven_batches: settings.drop_last = true; break;
    case TrainFault::pageable: settings.pin_memory = false; break;
    case TrainFault::fp32: settings.precision = "fp32"; break;
    case TrainFault::launch_bound:
      settings.cuda_graphs = settings.fused_kernels = false;
      settings.batch_size = 1;
      settings.sequence_length = 64;
      break;
    default: break;
  }
}

}  // namespace lockstep
