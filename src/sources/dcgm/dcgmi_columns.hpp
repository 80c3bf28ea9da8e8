// What `dcgmi dmon -e 203,155,...` prints: a line a GPU, named columns.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sources/parsed/parsed_log.hpp"

namespace lockstep {

// Nothing where the text is no such table.
std::optional<ParsedLog> parse_dcgmi_columns(const std::vector<std::string>& lines);

}  // namespace lockstep
