// `lockstep profile --pid`: a job that runs already is profiled as it is, without a restart.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/result.hpp"
#include "runs/run_options.hpp"

namespace lockstep {

struct RunningProfile {
  std::optional<std::int64_t> steps;  // that a trace is to hold
  std::string record;                 // a file for what was seen; empty: none
  std::string flame;
};

// options.pid: any process of the job.
Result<int> profile_running(const RunOptions& options, const RunningProfile& wanted);

}  // namespace lockstep
