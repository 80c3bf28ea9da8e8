// A flame graph, as one SVG file or within a page: no script, the numbers are in
// the titles.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "render/words/flame_tree.hpp"

namespace lockstep {

// A colour for each part of a step, for all pictures.
std::string_view part_color(StepPart part);

// Within a page it needs no name space, and a page names no address.
enum class SvgUse : std::uint8_t { file, within_a_page };
std::string flame_svg(const FlameGraph& graph, SvgUse use = SvgUse::file);

}  // namespace lockstep
