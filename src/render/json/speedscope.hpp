// A flame graph for speedscope.app, which also reads it from a file without a server.
#pragma once

#include <string>

#include "render/words/flame_tree.hpp"

namespace lockstep {

std::string speedscope_json(const FlameGraph& graph, const std::string& name);

}  // namespace lockstep
