// Collectives as the ranks came to them, and communicators as NCCL itself counts them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// One rank's part in one collective. Records of the same communicator, operation and sequence are
// of the same collective.
struct CollectiveCall {
  int pid = 0;
  int rank = 0;  // of the process
  std::uint64_t communicator = 0;
  std::uint64_t sequence = 0;
  double called_ms = 0;            // on the timeline's clock: the host asked for it
  double queued_ms = 0;            // it was given to the GPU
  std::optional<double> begin_ms;  // on the GPU; nothing: not measured
  std::optional<double> end_ms;
  double bytes = 0;  // 0: not known
  int place = 0;     // of the rank in the communicator
  int size = 0;      // ranks in it; 0: not known
  int nodes = 0;     // 0: not known
  int channels = 0;
  bool captured = false;     // into a graph that runs many times
  bool to_one_peer = false;  // a send or a receive
  std::string operation;     // "AllReduce"
  std::string algorithm;
  std::string protocol;

  bool operator==(const CollectiveCall&) const = default;
};

// One rank of a communicator, as NCCL's RAS tells.
struct CommunicatorRank {
  int rank = 0;
  std::string host;
  int pid = 0;
  std::optional<int> gpu;  // NVML's number
  bool answers = true;     // no: RAS could not reach it
  bool dead = false;       // RAS has given it up
  bool initialising = false;
  int error = 0;  // what ncclCommGetAsyncError would say
  bool aborted = false;
  std::map<std::string, std::int64_t> counts;  // collectives begun, by operation

  bool operator==(const CommunicatorRank&) const = default;
};

struct Communicator {
  std::string hash;
  int size = 0;
  std::vector<CommunicatorRank> ranks;  // by rank

  bool operator==(const Communicator&) const = default;
};

// What RAS said at one moment. Several jobs on one machine may answer by turns: communicators of
// several answers are joined.
struct CommunicatorCensus {
  std::string nccl_version;
  std::vector<Communicator> communicators;

  bool operator==(const CommunicatorCensus&) const = default;
};

}  // namespace lockstep
