// Training that is wrong on purpose: each fault with the finding that it must lead to, and who can
// see it. The ground truth that `scripts/bench faults` and tests/end_to_end/faults_test.py hold the
// findings against; docs/faults.md shows the table.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "lockstep/finding.hpp"
#include "training/train_settings.hpp"

namespace lockstep {

enum class TrainFault : std::uint8_t {
  slow_rank,
  slow_loader,
  no_workers,
  checkpoint_often,
  rank0_evaluates,
  hang,
  throttled_rank,
  one_device,
  unsynchronised,
  log_each_step,
  sync_each_step,
  sync_each_pass,
  reduce_each_step,
  collector_pauses,
  tiny_buckets,
  find_unused,
  small_passes,
  every_rank_saves,
  same_seeds,
  unsharded,
  same_order,
  uneven_batches,
  pageable,
  fp32,
  launch_bound,
};

enum class FaultSeenBy : std::uint8_t {
  outside,     // diagnose, without a word from the program
  step_marks,  // diagnose, by what the program tells of its steps
  gpu,         // as either, where there is a GPU
};

std::string_view name_of(FaultSeenBy by);  // "outside", "step marks", "GPU"

struct FaultRow {
  TrainFault fault;
  std::string_view name;
  FindingCode code;
  FaultSeenBy by;
  std::string_view what;
};
std::span<const FaultRow> all_faults();
// The names, for a setting's choices: "none" first.
std::span<const std::string_view> fault_names();
const FaultRow* fault_named(std::string_view name);  // nullptr: "none"

// Of the faults that are nothing but settings: sets them. What is left is done while training runs.
void set_fault(TrainSettings& settings);

}  // namespace lockstep
