// The pages of docs/findings, compiled in.
#pragma once

#include <span>
#include <string_view>

namespace lockstep {

struct FindingPage {
  std::string_view id;    // "P101"
  std::string_view text;  // Markdown that reads well as it stands
};
std::span<const FindingPage> finding_pages();

}  // namespace lockstep
