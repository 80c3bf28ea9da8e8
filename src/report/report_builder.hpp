// Gathers a timeline and what was derived from it into a report.
#pragma once

#include "lockstep/detector.hpp"
#include "lockstep/report.hpp"
#include "lockstep/signals.hpp"
#include "lockstep/timeline.hpp"

namespace lockstep {

// What was measured, with nothing judged.
Report build_report(const Timeline& timeline, const Signals& signals);

// With verdict, jobs, findings, pictures and the checklist.
Report build_report(const Timeline& timeline, const Signals& signals, const Diagnosis& diagnosis);

}  // namespace lockstep
