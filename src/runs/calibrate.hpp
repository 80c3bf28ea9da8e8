// A measured step of the reference trainer against what the model says of it.
#pragma once

#include "lockstep/result.hpp"
#include "plan/plan_request.hpp"

namespace lockstep {

// Runs a few steps on one device of this machine: the request's own net where lockstep-train has
// its shape, else a GPT of its layers and channels. An error where the request is for another
// machine, or there is no trainer.
Result<Calibration> calibrate(const PlanRequest& request, bool quiet);

}  // namespace lockstep
