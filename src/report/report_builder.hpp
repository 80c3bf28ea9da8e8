// Gathers a timeline and what was derived from it into a report.
#pragma once

#include "lockstep/report.hpp"
#include "lockstep/signals.hpp"
#include "lockstep/timeline.hpp"

namespace lockstep {

Report build_report(const Timeline& timeline, const Signals& signals);

}  // namespace lockstep
