// Both runs side by side for a terminal: lanes, checklist, tokens a second, speedup.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "lockstep/before_after.hpp"
#include "lockstep/renderer.hpp"

namespace lockstep {

std::string before_after_text(const BeforeAfter& runs, Colors colors,
                              std::optional<std::size_t> width);

}  // namespace lockstep
