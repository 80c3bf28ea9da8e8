// The report's `trace` object.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "lockstep/trace_signals.hpp"

namespace lockstep {

nlohmann::ordered_json trace_object(const TraceSignals& trace);

}  // namespace lockstep
