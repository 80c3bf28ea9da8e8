// From signals to verdicts, findings and suspicions; and when enough was seen.
#pragma once

#include "lockstep/detector.hpp"
#include "lockstep/signals.hpp"

namespace lockstep {

Diagnosis diagnose(const Signals& signals);

// Whether watching longer would hardly change the verdict: a sequential test on independent blocks
// (Wald's), in which each block of one period votes for turns or for steps.
bool is_sure(const Diagnosis& diagnosis, const Signals& signals);

// Whether a watch that could end should go on: GPUs work one at a time, and too few turns were seen
// to call it so.
bool is_worth_waiting_for(const Diagnosis& diagnosis, const Signals& signals);

}  // namespace lockstep
