// The pattern of a job that a cluster names, over one machine or several, from readings that may be
// half a minute apart.
#pragma once

#include "lockstep/detector.hpp"

namespace lockstep {

JobVerdict judge_cluster_job(const JobSignals& job, const Signals& signals);

}  // namespace lockstep
