// A training program's own output: the lines with error messages that lockstep knows.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sources/parsed/parsed_log.hpp"

namespace lockstep {

// What one rank printed, or all of them together.
struct OutputLog {
  std::string name;         // empty: the only one
  std::optional<int> rank;  // of lines that name none
  std::span<const std::string> lines;
  std::size_t first_line = 0;  // where they begin in the file
};

// Of several runs in one log the last. Nothing where no line is known.
std::optional<ParsedLog> parse_training_log(std::span<const std::string> lines);

// Of a run that goes on, or ended well: no line is known.
ParsedLog log_without_messages();

// Logs of one run, a file a rank: what each of them says, and what they say compared.
std::optional<ParsedLog> parse_training_logs(std::span<const OutputLog> logs);

}  // namespace lockstep
