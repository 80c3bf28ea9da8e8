// A training program's own output: the lines with error messages that lockstep knows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sources/parsed/parsed_log.hpp"

namespace lockstep {

// Nothing where no line is known.
std::optional<ParsedLog> parse_training_log(const std::vector<std::string>& lines);

}  // namespace lockstep
