// Traces of several ranks as one, for Perfetto or chrome://tracing, with lockstep's findings as
// marks.
#pragma once

#include <string>
#include <vector>

#include "lockstep/report.hpp"
#include "lockstep/result.hpp"
#include "lockstep/timeline.hpp"
#include "rows/rank_trace.hpp"

namespace lockstep {

// All on one clock: `offsets_ns` are added to each trace's times. The steps' idle stretches that a
// finding speaks of carry its name.
Status write_merged_trace(const std::string& path, const std::vector<RankTrace>& traces,
                          const std::vector<std::int64_t>& offsets_ns, const Timeline& timeline,
                          const Report& report);

}  // namespace lockstep
