// Repeated plain `nvidia-smi` tables.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sources/parsed/parsed_log.hpp"

namespace lockstep {

std::optional<ParsedLog> parse_nvidia_smi_tables(const std::vector<std::string>& lines);

}  // namespace lockstep
