// The one account of a job's GPU time: what each finding costs is taken from it, and nothing twice.
//
// The order in which causes are charged where several could have the same idle moment is that of
// the critical path: what holds the host back before it can launch comes first. docs/ledger.md.
#pragma once

#include <vector>

#include "lockstep/detector.hpp"

namespace lockstep {

// One ledger for each of signals.jobs, in the same order. Each finding is given its cost
// (lost_throughput, lost_gpu_hours_a_day) and, where another finding names the same loss, that one
// (cause_of).
std::vector<Ledger> settle(const Seen& seen, std::vector<Finding>& findings);

// What the watched GPUs get done of what they could, all jobs together, by the findings that are
// stood behind. Nothing: no job was judged.
std::optional<Throughput> throughput_of(const Seen& seen, const std::vector<Ledger>& ledgers,
                                        const std::vector<Finding>& findings);

}  // namespace lockstep
