// A benchmark as a page and as a picture. Both stand alone.
#pragma once

#include <string>

#include "lockstep/bench.hpp"

namespace lockstep {

std::string bench_html(const BenchReport& report);

// Speedup over devices, measured and expected, or a bar a preset: an SVG file of its own.
std::string bench_svg(const BenchReport& report);

}  // namespace lockstep
