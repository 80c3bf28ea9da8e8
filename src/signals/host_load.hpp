// What the host's counters say of a job's processes: cores, loader workers, bytes read and written.
#pragma once

#include <vector>

#include "lockstep/signals.hpp"
#include "lockstep/timeline.hpp"

namespace lockstep {

// Of the looks between `from_ms` and `to_ms`, where there are any: start-up has no workers and a
// full core.
HostSignals host_signals(const Timeline& timeline, const std::vector<int>& pids, double from_ms,
                         double to_ms);

// Bytes the processes wrote between the last look before `from_ms` and the first look after
// `to_ms`.
std::optional<double> written_between(const Timeline& timeline, const std::vector<int>& pids,
                                      double from_ms, double to_ms);

}  // namespace lockstep
