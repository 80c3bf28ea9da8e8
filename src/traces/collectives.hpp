// The same collective on every rank: who arrived when.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rows/rank_trace.hpp"

namespace lockstep {

// One rank's part in a collective.
struct Arrival {
  std::size_t trace = 0;  // of the traces
  std::uint32_t row = 0;  // of its device rows
};

struct Collective {
  std::string name;               // of the kernel, shortened
  std::vector<Arrival> arrivals;  // by trace; at least two
};

// Matched by group and order: the n-th kernel of a name in a group of ranks is the same collective
// on all of them. Ranks whose capture began earlier or later have some the others lack: those at
// the ends that nobody answers are left out, by when they ended.
std::vector<Collective> match_collectives(const std::vector<RankTrace>& traces);

// Ranks of different machines have different clocks. A collective ends on all of them at once, so
// the median difference of its ends is the clocks'. What each trace's times are moved by; zero
// where the clocks agree within a millisecond or nothing tells.
std::vector<std::int64_t> clock_offsets(const std::vector<RankTrace>& traces,
                                        const std::vector<Collective>& collectives);

}  // namespace lockstep
