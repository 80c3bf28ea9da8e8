// A plan for a person.
#pragma once

#include <string>

#include "lockstep/plan.hpp"
#include "lockstep/renderer.hpp"

namespace lockstep {

struct PlanTextOptions {
  Colors colors = Colors::off;
  bool compare = false;  // the best of every other strategy
  bool why = false;      // how each number comes about
  std::string start;     // the line that starts it; empty: none
};
std::string plan_text(const Plan& plan, const PlanTextOptions& options);

}  // namespace lockstep
