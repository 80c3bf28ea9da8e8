// A plan for programs: docs/formats/plan.schema.json.
#pragma once

#include <string>

#include "lockstep/plan.hpp"

namespace lockstep {

std::string plan_json(const Plan& plan);

}  // namespace lockstep
