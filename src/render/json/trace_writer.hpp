// The steps that probes saw as a trace for chrome://tracing and Perfetto: a process a rank, a row
// for steps and one for pieces.
#pragma once

#include <string>

#include "lockstep/result.hpp"
#include "lockstep/timeline.hpp"

namespace lockstep {

std::string trace_json(const Timeline& timeline);
// Whole or not at all.
Status write_trace(const std::string& path, const Timeline& timeline);

}  // namespace lockstep
