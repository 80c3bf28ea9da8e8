// A benchmark for people: the table, bars of the speedups, what the fit expects, and what guides
// published.
#pragma once

#include <optional>
#include <string>

#include "lockstep/bench.hpp"
#include "lockstep/renderer.hpp"

namespace lockstep {

std::string bench_text(const BenchReport& report, Colors colors, std::optional<std::size_t> width);

// One line a row, with a heading: for spreadsheets.
std::string bench_csv(const BenchReport& report);

}  // namespace lockstep
