// Text that people's own scripts print: blocks of "GPU 0 (name): GPU Utilization: 97% | ..." under
// a time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sources/parsed/parsed_log.hpp"

namespace lockstep {

std::optional<ParsedLog> parse_text_blocks(const std::vector<std::string>& lines);

}  // namespace lockstep
