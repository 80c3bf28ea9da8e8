// What the host's counters say of a job's processes: cores, loader workers, bytes read and written.
#pragma once

#include <vector>

#include "lockstep/signals.hpp"
#include "lockstep/timeline.hpp"

namespace lockstep {

HostSignals host_signals(const Timeline& timeline, const std::vector<int>& pids);

// Bytes the processes wrote between the last look before `from_ms` and the first look after `to_ms`.
std::optional<double> written_between(const Timeline& timeline, const std::vector<int>& pids, double from_ms, double to_ms);

}  // namespace lockstep
