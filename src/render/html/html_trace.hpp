// A trace's numbers on a page.
#pragma once

#include <string>

#include "lockstep/report.hpp"

namespace lockstep {

std::string trace_html(const TraceSignals& trace);
std::string changes_html(const Comparison& comparison, const std::string& own);

}  // namespace lockstep
