// What `rocm-smi` prints for people: its "Concise Info", a row for each GPU.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sources/parsed/parsed_log.hpp"

namespace lockstep {

// Nothing where the text has no such table.
std::optional<ParsedLog> parse_rocm_smi_table(const std::vector<std::string>& lines);

}  // namespace lockstep
