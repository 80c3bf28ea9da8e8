// What GPUtil.showUtilization() prints: "| ID | GPU | MEM |", a line, and "|  0 | 11% |  4% |" for
// each GPU.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sources/parsed/parsed_log.hpp"

namespace lockstep {

// Nothing where the text has no such table.
std::optional<ParsedLog> parse_gputil_table(const std::vector<std::string>& lines);

}  // namespace lockstep
