// The user's own functions in which the host was while the GPU had nothing to do.
#pragma once

#include <vector>

#include "lockstep/trace_signals.hpp"
#include "rows/rank_trace.hpp"
#include "traces/gpu_time.hpp"

namespace lockstep {

// From the Python rows of the thread, which name a function by its first line; most costly first.
// Empty: the trace has none.
std::vector<TraceCode> own_code(const RankTrace& trace, std::uint32_t thread,
                                const std::vector<GpuPiece>& pieces, int steps);

}  // namespace lockstep
