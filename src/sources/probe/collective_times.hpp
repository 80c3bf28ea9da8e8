// One process's collectives with when they ran on the GPU, where the CUDA probe saw their kernels.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "lockstep/collective.hpp"
#include "probes/wire/lockstep_wire.h"
#include "sources/probe/device_accountant.hpp"

namespace lockstep {

// Times in nanoseconds of CLOCK_MONOTONIC until they are put on a timeline.
struct TimedCollective {
  CollectiveCall call;  // without its times
  std::uint64_t called_ns = 0;
  std::uint64_t queued_ns = 0;
  std::uint64_t begin_ns = 0;  // on the GPU; 0: not known
  std::uint64_t end_ns = 0;
  std::uint64_t group = 0;  // calls of one group become one kernel; 0: alone
};

class CollectiveTimes {
 public:
  bool add(const lockstep_collective& said);  // false: damaged
  void add(const std::vector<CollectiveKernel>& kernels);

  enum class Until : std::uint8_t { settled, end };
  // Those that are complete, or old enough that nothing more will come. In the order of their
  // calls.
  std::vector<TimedCollective> take(Until until, bool kernels_are_seen, std::uint64_t now_ns);

 private:
  void match();

  std::deque<TimedCollective> waiting_;
  std::vector<CollectiveKernel> kernels_;  // by begin, not matched yet
  // by communicator: each has a stream of its own
  std::map<std::uint64_t, int> stream_of_;
};

}  // namespace lockstep
