// The one machine of several for which all others of a job wait.
#pragma once

#include <optional>

#include "lockstep/detector.hpp"

namespace lockstep {

std::optional<Finding> find_slow_host(const JobSignals& job);

}  // namespace lockstep
