// A step's time for speedscope.app, which also reads it from a file without a server.
#pragma once

#include <string>

#include "lockstep/signals.hpp"

namespace lockstep {

std::string speedscope_json(const StepSignals& steps, const std::string& name);

}  // namespace lockstep
