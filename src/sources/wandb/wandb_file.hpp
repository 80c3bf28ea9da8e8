// Weights & Biases run files (run-*.wandb): system metrics of runs long over.
//
// A header of 7 bytes, then blocks of 32 KiB as LevelDB's log has them: records with checksum,
// length and type, the long ones in pieces. Each whole record is a protobuf message; system metrics
// are its field `stats`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sources/parsed/parsed_log.hpp"

namespace lockstep {

bool looks_like_wandb(std::string_view start);

// Nothing where the file holds no GPU metrics; a file that was cut gives what it has.
std::optional<ParsedLog> parse_wandb_file(std::string_view bytes);

}  // namespace lockstep
