// A text as the readers of logs get it.
#pragma once

#include <string>
#include <vector>

#include "base/text.hpp"

namespace lockstep::testing {

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (const std::string_view line : split(text, '\n')) lines.emplace_back(line);
  return lines;
}

}  // namespace lockstep::testing
