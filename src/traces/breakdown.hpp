// Where the GPUs' time went: HolisticTraceAnalysis's definitions, exact in nanoseconds, or with its
// rounding and its quirks.
#pragma once

#include <vector>

#include "lockstep/trace_signals.hpp"
#include "rows/rank_trace.hpp"

namespace lockstep {

enum class BreakdownRules : std::uint8_t {
  exact,
  like_hta,  // of traces that were read with its rounding
};

TraceBreakdown break_down(const std::vector<RankTrace>& traces, BreakdownRules rules);

}  // namespace lockstep
