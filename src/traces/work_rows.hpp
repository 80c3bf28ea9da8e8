// The GPU rows of a trace that its breakdown is made of, each with the moment at which the host
// launched it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/trace_signals.hpp"
#include "rows/rank_trace.hpp"

namespace lockstep {

struct WorkRow {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::optional<std::int64_t> launched_ns;
  const HostRow* launch = nullptr;  // of a trace that is still there
  std::uint32_t device_row = 0;     // of its trace
  NameTable::Id name = 0;
  std::int32_t stream = 0;
  std::int16_t device = 0;
  TraceCategory category = TraceCategory::kernel;
  KernelType type = KernelType::compute;
};

// From a number that a launch and its kernel share to the host row of the launch, the last in the
// file.
class LaunchIndex {
 public:
  explicit LaunchIndex(const RankTrace& trace);
  const HostRow* find(std::int64_t correlation) const;

 private:
  const std::vector<HostRow>& rows_;
  std::int64_t lowest_ = 0;
  // row and one, by number; empty where the numbers lie too far apart
  std::vector<std::uint32_t> dense_;
  std::vector<std::pair<std::int64_t, std::uint32_t>> sparse_;
};

// The profiler's steps are marked by ProfilerStep#n. The last may be cut, so with two or more what
// was launched in it is left out.
bool has_several_steps(const RankTrace& trace);
bool has_several_steps(const std::vector<RankTrace>& traces);  // as HTA asks: all of them together

// What is looked at: whole steps, or everything that was recorded.
enum class Extent : std::uint8_t { whole_steps, everything };

// In order of their begin. What a wait or an annotation drew on the GPU's rows is no work.
std::vector<WorkRow> work_rows(const RankTrace& trace, Extent extent);

// The rows that HolisticTraceAnalysis would look at, as many times as it would.
std::vector<WorkRow> work_rows_like_hta(const RankTrace& trace, bool several_steps);

}  // namespace lockstep
