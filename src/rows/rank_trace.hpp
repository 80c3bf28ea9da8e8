// A profiler's trace of one rank: what ran on the GPU, what the host did meanwhile.
//
// Times are nanoseconds on the trace's own clock, exact: Kineto writes microseconds with three
// decimals, which no double holds once they count from 1970.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/machine.hpp"
#include "rows/name_table.hpp"

namespace lockstep {

enum class TraceCategory : std::uint8_t {
  op,          // cpu_op, Operator
  annotation,  // user_annotation: ProfilerStep, DataLoader, Optimizer.step, the user's own
  python,      // python_function
  runtime,     // cuda_runtime, cuda_driver and their like: launches, copies, waits
  host_other,  // overhead of the profiler, and what is not known
  kernel,
  copy,               // gpu_memcpy
  set,                // gpu_memset
  device_task,        // mtia_ccp_events
  device_sync,        // cuda_sync: a wait as the driver saw it, no work
  device_annotation,  // gpu_user_annotation: drawn over kernels, no work
};

constexpr bool is_on_device(TraceCategory category) { return category >= TraceCategory::kernel; }
constexpr bool is_device_work(TraceCategory category) {
  return category >= TraceCategory::kernel && category <= TraceCategory::device_task;
}

inline constexpr std::int32_t kNoStream = -1;
inline constexpr std::int64_t kNoCorrelation = -1;

// Something that a GPU did.
struct DeviceRow {
  std::int64_t start_ns = 0;
  std::int64_t duration_ns = 0;
  std::int64_t correlation = kNoCorrelation;  // the same number as the call that launched it
  std::uint64_t bytes = 0;                    // of a copy
  NameTable::Id name = 0;
  std::int32_t stream = kNoStream;
  // where the trace drew it: the stream, of rows that do not name one
  std::int32_t row_thread = 0;
  std::int16_t device = 0;
  TraceCategory category = TraceCategory::kernel;

  std::int64_t end_ns() const { return start_ns + duration_ns; }
};

// Something that a thread of the process did.
struct HostRow {
  std::int64_t start_ns = 0;
  std::int64_t duration_ns = 0;
  std::int64_t correlation = kNoCorrelation;
  NameTable::Id name = 0;
  std::uint32_t thread = 0;         // of RankTrace::threads
  std::int32_t stream = kNoStream;  // some operators name one
  TraceCategory category = TraceCategory::op;

  std::int64_t end_ns() const { return start_ns + duration_ns; }
};

struct TraceThread {
  std::int64_t process = 0;
  std::int64_t thread = 0;
};

// What a communication kernel's arguments say.
struct CollectiveFacts {
  std::string_view name;   // "allreduce"
  std::string_view group;  // of ranks
  int group_size = 0;
  std::uint64_t bytes = 0;
};

// What was wrong with a file, told to the user.
struct TraceFlaws {
  bool cut = false;      // it ends in the middle
  bool damaged = false;  // the compressed bytes are wrong from some place on
  // the rest was left out: more rows than memory is meant for
  bool too_long = false;
  std::uint64_t unreadable_events = 0;   // skipped
  std::uint64_t without_duration = 0;    // complete events without one: left out
  std::uint64_t negative_durations = 0;  // taken as zero
};

struct RankTrace {
  std::string file;
  int rank = 0;
  std::optional<int> told_rank;  // by distributedInfo
  std::optional<int> world_size;
  std::optional<std::string> backend;
  std::string host;
  std::int64_t base_unix_ns = 0;     // added to every time: since 1970
  bool times_are_fractions = false;  // of microseconds
  bool is_mtia = false;
  std::uint64_t bytes = 0;  // of JSON
  std::uint64_t events = 0;
  std::vector<GpuInfo> devices;
  std::map<int, std::pair<int, int>> compute_capability;  // by device
  NameTable names;
  std::vector<DeviceRow> device_rows;  // in the file's order
  std::vector<HostRow> host_rows;
  std::vector<TraceThread> threads;
  // by host row: the Python lines that led there, innermost first
  std::map<std::uint32_t, NameTable::Id> stacks;
  std::map<std::uint32_t, CollectiveFacts> collectives;  // by device row
  // the host row that the first event of the file became
  std::optional<std::uint32_t> first_event_row;
  TraceFlaws flaws;
};

}  // namespace lockstep
