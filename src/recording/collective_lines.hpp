// Collectives and communicators in a recording: writer and reader of each beside each other.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/collective.hpp"
#include "recording/writer.hpp"

namespace lockstep {

std::string collective_json(const CollectiveCall& call);
std::string census_json(const CommunicatorCensus& census, const WriterOptions& options);

// Fields of another type than expected are as if they were not there.
CollectiveCall read_collective(std::string_view json);
CommunicatorCensus read_census(std::string_view json);

}  // namespace lockstep
