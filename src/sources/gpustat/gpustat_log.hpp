// Output of `gpustat --json`, once or many times, one after the other.
#pragma once

#include <optional>
#include <string>

#include "sources/parsed/parsed_log.hpp"

namespace lockstep {

std::optional<ParsedLog> parse_gpustat_log(const std::string& text);

}  // namespace lockstep
