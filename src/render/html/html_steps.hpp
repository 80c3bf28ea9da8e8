// Where each step's time goes, as part of a page: tables by part and by line, and pictures of the
// median and the worst step.
#pragma once

#include <string>

#include "lockstep/report.hpp"

namespace lockstep {

std::string steps_html(const StepSignals& steps);

}  // namespace lockstep
