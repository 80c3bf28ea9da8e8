// Where a trace's training steps begin and end on the host.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "rows/rank_trace.hpp"
#include "traces/work_rows.hpp"

namespace lockstep {

struct HostStep {
  std::int64_t index = 0;  // the profiler's number, else counted from 0
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

// At ProfilerStep#n; in traces without them, as those taken on demand are, from the end of one
// Optimizer.step to the end of the next. Steps that are whole, in order; empty: nothing marks them.
std::vector<HostStep> cut_steps(const RankTrace& trace);

// How often the model ran forward, and ran backward with collectives, for each step of its
// optimizer.
struct Accumulation {
  double passes_a_step = 0;
  double passes_with_collectives = 0;
};
std::optional<Accumulation> accumulation_of(const RankTrace& trace,
                                            const std::vector<WorkRow>& rows);

// When the marks begin whose names begin so, in order.
std::vector<std::int64_t> begins_of_marks(const RankTrace& trace, std::string_view prefix);

// Forward passes that begin in [from, to), and those of them that a collective begins behind,
// before the next pass.
struct Passes {
  int all = 0;
  int with_collectives = 0;
};
Passes count_passes(const std::vector<std::int64_t>& forwards,
                    const std::vector<std::int64_t>& collectives, std::int64_t from,
                    std::int64_t to);

}  // namespace lockstep
