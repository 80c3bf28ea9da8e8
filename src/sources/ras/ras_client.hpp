// Asks NCCL's RAS, which every process with a communicator runs, for its communicators: who is in
// them and how many collectives each has begun.
//
// No injection, no rights, no variable: TCP to this machine (NCCL 2.24 and later; JSON
// since 2.28.7). Absence proves nothing: RAS can be off, the NCCL older, the communicator not made
// yet.
#pragma once

#include <chrono>
#include <string>

#include "lockstep/collective.hpp"
#include "lockstep/result.hpp"

namespace lockstep {

struct RasAddress {
  std::string host = "127.0.0.1";
  std::string port = "28028";
};

// NCCL_RAS_ADDR of the environment, as NCCL reads it (host:port, [host]:port, :port, host), else
// the usual place.
RasAddress ras_address(const std::string& variable);

// One answer. Waits no longer than `patience` in all.
Result<CommunicatorCensus> ask_ras(const RasAddress& address, std::chrono::milliseconds patience);

// Up to `most` answers joined: where two jobs listen, the kernel picks one of them for each. Ends
// early when three answers in a row told nothing new.
Result<CommunicatorCensus> ask_all_ras(const RasAddress& address,
                                       std::chrono::milliseconds patience, int most = 8);

}  // namespace lockstep
