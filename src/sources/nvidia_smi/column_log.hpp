// `nvidia-smi dmon` and `nvidia-smi pmon`: columns under a line that starts with #.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sources/parsed/parsed_log.hpp"

namespace lockstep {

std::optional<ParsedLog> parse_nvidia_smi_columns(const std::vector<std::string>& lines);

}  // namespace lockstep
