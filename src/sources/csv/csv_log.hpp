// CSV that nvidia-smi or people's own scripts wrote: columns found by their words, or by their
// content without a header.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sources/parsed/parsed_log.hpp"

namespace lockstep {

// Nothing where the lines are no such log.
std::optional<ParsedLog> parse_csv_log(const std::vector<std::string>& lines);

// Of lines that are no log: they are nvidia-smi's rows, and may be of one GPU or of several.
bool names_no_gpu(const std::vector<std::string>& lines);

}  // namespace lockstep
