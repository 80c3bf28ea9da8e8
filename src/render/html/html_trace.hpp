// A trace's numbers on a page.
#pragma once

#include <string>

#include "lockstep/report.hpp"

namespace lockstep {

std::string trace_html(const TraceSignals& trace);
// What the GPUs' own records and NCCL's say beside the steps; empty: nothing.
std::string devices_html(const Report& report);
std::string changes_html(const Comparison& comparison, const std::string& own);
std::string step_changes_html(const Comparison& comparison);

}  // namespace lockstep
