// What NCCL's RAS answers to STATUS, as JSON (since 2.28.7) or as text.
#pragma once

#include <optional>
#include <string_view>

#include "lockstep/collective.hpp"

namespace lockstep {

// Nothing: it is no such answer.
std::optional<CommunicatorCensus> parse_ras_json(std::string_view text);

// Each communicator that both name is the one of the newer; others are added. Several jobs on one
// machine listen at the same port, and the kernel picks who answers.
void join_census(CommunicatorCensus& known, CommunicatorCensus newer);

}  // namespace lockstep
