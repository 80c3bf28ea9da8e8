// A benchmark for programs: docs/formats/bench.schema.json.
#pragma once

#include <string>

#include "lockstep/bench.hpp"

namespace lockstep {

std::string bench_json(const BenchReport& report);

}  // namespace lockstep
