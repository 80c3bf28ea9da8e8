// What NCCL's INFO log says in a few lines: version, network, transports, rings. One file a rank.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct NcclFacts {
  std::string version;                    // 2.28.9+cuda13.0
  std::string network;                    // IB, Socket
  std::set<int> world_sizes;              // of the communicators
  int channels = 0;                       // most of any communicator
  std::map<std::string, int> transports;  // P2P/CUMEM, SHM/direct, NET/IB: connections of each
  std::string ring;                       // channel 00's order: 0 1 2 3
  std::vector<std::string> warnings;      // NCCL WARN, each once
};

void read_nccl_log(std::string_view text, NcclFacts& facts);
// For the screen; empty: NCCL was not used.
std::string in_words(const NcclFacts& facts);

}  // namespace lockstep
