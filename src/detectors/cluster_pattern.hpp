// The pattern of a job that a cluster names, over one machine or several, from readings that may be half a minute apart.
#pragma once

#include "lockstep/detector.hpp"

namespace lockstep {

JobVerdict judge_cluster_job(const JobSignals& job, const Signals& signals);

// "ml/llama" or "GPU 0 to 3", and where it runs: "on 4 hosts (32 GPUs)".
std::string words_for_job(const JobSignals& job);

}  // namespace lockstep
