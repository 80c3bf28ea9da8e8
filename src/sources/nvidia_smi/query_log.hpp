// What `nvidia-smi -q` prints: names and values, indented, a block a GPU.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sources/parsed/parsed_log.hpp"

namespace lockstep {

// Nothing where the text is no such listing.
std::optional<ParsedLog> parse_nvidia_smi_query(const std::vector<std::string>& lines);

}  // namespace lockstep
