// What `gpustat` prints for people: "[0] NVIDIA A100 | 45'C,  97 % | 61234 / 81920 MB |
// ada(61000M)".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sources/parsed/parsed_log.hpp"

namespace lockstep {

// Nothing where the text has no such line.
std::optional<ParsedLog> parse_gpustat_table(const std::vector<std::string>& lines);

}  // namespace lockstep
