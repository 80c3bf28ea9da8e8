// What probes of the second rung add: the GPUs' own records of each step, the collectives as each
// rank came to them, and NCCL's own count.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/step_part.hpp"

namespace lockstep {

// One GPU of a rank. Shares of the steps' time; computes + exposed + copies + idle is 1.
struct DeviceUse {
  int device = 0;  // as the process numbers them
  double computes = 0;
  double exposed = 0;  // collectives ran, and nothing computed
  double hidden = 0;   // collectives ran beside computing: within computes
  double copies = 0;   // only copies ran
  double idle = 0;
  double kernels_a_step = 0;

  double busy() const { return computes + exposed + copies; }
};

struct RankDevices {
  int rank = 0;
  std::vector<DeviceUse> devices;  // by number
  // of the time in which any computes, the share in which exactly one does
  double exclusive = 0;
  double hand_overs_a_step = 0;  // times the one that computes changed
  // share of the steps' time: the GPU that works most was idle, by what the host did meanwhile
  std::array<double, kStepSpanNames.size()> idle{};
  // share: idle in short gaps while the host was launching
  double launch_gaps = 0;
  double launch_gaps_a_step = 0;
  // of the host for the GPU, by the driver's records
  double waits_a_step = 0;
  double waits = 0;  // share of the host's time
  double pageable_bytes_a_step = 0;
  double pageable = 0;      // share of the steps' time
  double plain_matmul = 0;  // share of the computing time
  double tensor_cores = 0;
  // share of the steps' time that the probe took on the host
  double overhead = 0;
  // share by which the probe made steps with records longer than those between its windows; it is
  // taken out of all other numbers here
  double slowed_by_probe = 0;
  // share by which steps behind the windows are longer since CUPTI stays in the process
  double slowed_for_good = 0;

  double computes_together() const {
    double sum = 0;
    for (const DeviceUse& use : devices) sum += use.computes;
    return sum;
  }
  // Share of the time in which any of them computes.
  double any_computes() const {
    return std::min(1.0, computes_together() * (exclusive + (1 - exclusive) / 2));
  }

  // The one that works most; null: no GPU did anything.
  const DeviceUse* main() const {
    const DeviceUse* most = nullptr;
    for (const DeviceUse& use : devices)
      if (most == nullptr || use.busy() > most->busy()) most = &use;
    return most;
  }
};

struct DeviceSignals {
  std::int64_t steps = 0;          // of the rank with the fewest
  std::vector<RankDevices> ranks;  // by rank
};

// How one rank comes to collectives.
struct RankArrival {
  int rank = 0;
  double last = 0;          // share of the collectives at which it was the last
  double late = 0;          // share of the time: the others waited for it alone
  double late_on_host = 0;  // of that, since its host asked late
  double late_on_gpu = 0;   // of that, though its host asked in time: its GPU still had other work
  double late_share = 0;    // of all ranks' lateness
};

// One kind of collective, by what it moved.
struct CollectiveSpeed {
  std::string operation;
  std::string algorithm;
  std::string protocol;
  int size = 0;   // ranks
  int nodes = 0;  // 0: not known
  std::size_t count = 0;
  double bytes = 0;  // median
  // median of the shortest on any rank: the last to arrive waits for nobody
  double transfer_ms = 0;
  double bus_bytes_s = 0;  // as nccl-tests counts it
};

struct CollectiveSignals {
  std::size_t calls = 0;    // of the rank that made most
  std::size_t matched = 0;  // collectives that every rank of theirs told
  double watched_ms = 0;
  bool on_device = false;  // the GPUs' times are known
  double bytes_s = 0;      // of a rank: what was asked for
  // share of the time that transfers take at least, hidden or not
  double transfer = 0;
  std::vector<RankArrival> ranks;       // by rank
  std::vector<CollectiveSpeed> speeds;  // that with most bytes first
  std::optional<double> link_bytes_s;   // what the links between these GPUs allow
};

// A communicator whose ranks have not all begun the same collectives, look after look.
struct StuckCommunicator {
  std::string hash;
  int size = 0;
  std::string operation;    // in which they differ
  std::int64_t most = 0;    // collectives of it that the furthest rank has begun
  std::vector<int> behind;  // ranks that have begun fewer
  std::int64_t fewest = 0;
  std::vector<int> silent;  // ranks that RAS could not reach
  std::vector<int> behind_pids;
  std::vector<int> behind_gpus;
  double for_ms = 0;  // that nothing changed
};

struct CommunicatorSignals {
  std::string nccl_version;
  int looks = 0;
  std::size_t communicators = 0;
  int largest = 0;            // ranks of the largest
  std::size_t processes = 0;  // in the largest
  // collectives of it between the first and the last look, on the slowest rank
  std::int64_t begun = 0;
  std::vector<StuckCommunicator> stuck;
  std::vector<int> failed;  // ranks with an error
};

}  // namespace lockstep
