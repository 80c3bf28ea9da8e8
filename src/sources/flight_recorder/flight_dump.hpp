// Reads the dumps of PyTorch's NCCL flight recorder: pickles (TORCH_NCCL_DEBUG_INFO_TEMP_FILE) and
// JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/flight_recorder.hpp"
#include "lockstep/result.hpp"

namespace lockstep {

// Whether a file that begins so is a dump: a pickle, or JSON with its entries.
bool looks_like_flight_dump(std::string_view start);

Result<FlightDump> parse_flight_dump(std::string_view bytes, const std::string& name);
// By rank: as the files' names say, else in the order given.
Result<std::vector<FlightDump>> read_flight_dumps(const std::vector<std::string>& paths);

}  // namespace lockstep
