// From traces to what they come to: numbers, and a timeline of GPUs and steps for the same report
// that every other input has.
#pragma once

#include <vector>

#include "lockstep/timeline.hpp"
#include "lockstep/trace_signals.hpp"
#include "rows/rank_trace.hpp"

namespace lockstep {

struct TraceAnalysis {
  TraceSignals signals;
  Timeline timeline;
  std::vector<std::int64_t> clock_offsets_ns;  // added to each trace's times they are of one clock
};

// `traces` by rank, at least one of them with a row of a GPU.
TraceAnalysis analyse_traces(const std::vector<RankTrace>& traces, TraceBreakdown breakdown);

}  // namespace lockstep
