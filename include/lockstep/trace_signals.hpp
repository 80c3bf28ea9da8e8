// What a trace comes to: where the GPUs' time went, and why they were idle.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/record.hpp"

namespace lockstep {

enum class KernelType : std::uint8_t { compute, communication, memory, other };
inline constexpr std::array<std::string_view, 4> kKernelTypeNames = {"compute", "communication",
                                                                     "memory", "other"};

// Why nothing ran on a stream between two kernels of it.
struct StreamIdle {
  int device = 0;
  int stream = 0;
  double host_wait_us = 0;    // the next one was not launched yet
  double kernel_wait_us = 0;  // it was, and began within 30 us: the time that a launch takes
  double other_us = 0;        // it was, and waited: for another stream, as a rule
};

struct KernelSum {
  std::string name;
  KernelType type = KernelType::compute;
  std::uint64_t count = 0;
  double sum_us = 0;
  double longest_us = 0;
};

// Where one rank's GPU time went, between the begin of its first and the end of its last kernel.
struct RankBreakdown {
  int rank = 0;
  std::string file;
  double span_us = 0;
  double idle_us = 0;         // nothing ran
  double compute_us = 0;      // a computing kernel ran
  double non_compute_us = 0;  // only communication or copies ran
  double communication_us = 0;
  // of the communication, the share during which something was computed
  std::optional<double> overlap;
  std::vector<StreamIdle> streams;
  std::vector<KernelSum> kernels;             // longest first
  std::map<std::string, std::uint64_t> rows;  // by category, that were looked at
};

// Time in which exactly these types ran, of all ranks together.
struct TypeSum {
  std::vector<KernelType> types;
  double sum_us = 0;
};

// One kind of thing on the longest chain of what waited for what, on one rank.
struct CriticalShare {
  // "compute", "communication", "copy", "launch", or a part of the step in which the host was
  std::string what;
  int rank = 0;
  double share = 0;  // of the chain
};

struct TraceBreakdown {
  bool like_hta = false;
  std::vector<RankBreakdown> ranks;
  std::vector<TypeSum> types;  // longest first
};

// Calls in which the host waits for the GPU, those of one operator together.
struct TraceWait {
  std::string what;  // "aten::item", or the driver's call where no operator surrounds it
  StepPart part = StepPart::sync;  // copy: within an operator that moves a tensor
  std::string file;                // of the user's code, where the trace has stacks
  int line = 0;
  double calls_a_step = 0;
  double wait_ms_a_step = 0;
  double present = 0;  // share of the steps that have it
};

// A function of the user's own in which the host was while the GPU had nothing to do.
struct TraceCode {
  std::string file;
  int line = 0;  // its first
  double idle_ms_a_step = 0;
};

struct TraceRankSignals {
  int rank = 0;
  std::vector<int> gpus;  // as the report numbers them
  double busy = 0;        // share of its time in which anything ran on them
  double computes = 0;
  double exposed_communication = 0;  // share of its time: only collectives ran
  double exposed_copies = 0;
  std::array<double, kStepSpanNames.size()> idle{};  // share of its time, by what kept the host
  double idle_in_time = 0;  // share of its time: idle though the next kernel was launched
  // that it was last to arrive at collectives, behind the one before it
  double late_ms_a_step = 0;
  double late_share = 0;  // of all such lateness
};

// Several GPUs of one process.
struct DeviceTurns {
  std::vector<int> devices;
  std::vector<double> busy;  // share of the time
  // of the time in which any works, the share in which exactly one does
  double exclusive = 0;
  int hand_overs = 0;          // times the one that works changed
  bool data_parallel = false;  // nn.DataParallel's own marks are there
};

// What a trace comes to. Shares are of the captured time.
struct TraceSignals {
  TraceBreakdown breakdown;
  double captured_s = 0;
  int steps = 0;                 // whole ones, of the rank with the fewest
  double step_ms = 0;            // median
  bool has_python_rows = false;  // stacks were recorded: the profiler then slows the host
  std::optional<int> world_size;

  // The run replayed: how far off it was as it was, and what leaving something out would give back.
  double replay_error = 0;
  std::array<double, kStepSpanNames.size()> removable{};
  double removable_launches = 0;
  double removable_collectives = 0;
  // the host's waits for the GPU are among the rows: without them they look like its own work
  bool waits_recorded = false;
  std::vector<CriticalShare> critical_path;

  std::vector<TraceRankSignals> ranks;
  std::vector<TraceWait> waits;  // longest first
  std::vector<TraceCode> code;   // most costly first, of the rank that has most; empty: no stacks
  std::size_t collectives = 0;   // matched between ranks
  // forward passes of the wrapped model for each optimizer step; 0: not known
  double passes_a_step = 0;
  double passes_with_collectives = 0;
  double find_unused_ms_a_step = 0;       // DDP's search for parameters without a gradient
  std::optional<bool> loader_in_process;  // the batch is made on the training thread itself
  double data_wait_ms_a_step = 0;         // in the loader, whether the GPU had work or not
  std::string loader_file;                // the line that takes the next batch
  int loader_line = 0;
  double pageable_bytes_a_step = 0;  // copied to the GPU from memory that is not pinned
  double pageable_ms_a_step = 0;
  double kernels_a_step = 0;
  double kernel_p50_us = 0;
  // of the computing time: products in fp32 that use no tensor core
  double plain_matmul_share = 0;
  double tensor_core_share = 0;
  bool has_tensor_cores = false;
  std::optional<DeviceTurns> turns;  // of the first process that has several GPUs
  // of the time in which any rank computes, the share in which several do
  double ranks_together = 0;
};

}  // namespace lockstep
