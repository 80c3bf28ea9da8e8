// A log of another tool as it stands in a file, and its lines without what pasting left around
// them: quote and comment marks, backticks, blanks, a terminal's escapes, frames, names of tasks.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "recording/line_stream.hpp"

namespace lockstep {

// some twenty times as much in memory while a log is read; cut with a note
inline constexpr std::size_t kLargestLog = 96U << 20U;

struct LogText {
  std::vector<std::string> lines;
  std::string text;  // as it stands in the file
  bool cut = false;
};
LogText read_log(LineStream& stream);

}  // namespace lockstep
