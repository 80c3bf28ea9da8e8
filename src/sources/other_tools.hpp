// Logs of other tools, by what is in them and never by their names.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sources/parsed/parsed_log.hpp"

namespace lockstep {

// Readings of GPUs alone.
std::optional<ParsedLog> parse_other_tools_readings(const std::vector<std::string>& lines,
                                                    const std::string& text);

// Readings of GPUs, a training program's output, or both in one text. Nothing: neither is in it.
std::optional<ParsedLog> parse_other_tools_log(const std::vector<std::string>& lines,
                                               const std::string& text);

}  // namespace lockstep
