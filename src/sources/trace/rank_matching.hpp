// Which rank each of several files belongs to.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rows/rank_trace.hpp"

namespace lockstep {

// By what the traces say of themselves, else by the files' names, else by their order; then sorted
// by rank. A sentence where that had to be guessed.
std::optional<std::string> match_ranks(std::vector<RankTrace>& traces);

// The rank that a file's name holds: "rank-3.json", "trace_rank12.json.gz", "host_7.pt.trace.json".
std::optional<int> rank_in_name(std::string_view path);

}  // namespace lockstep
