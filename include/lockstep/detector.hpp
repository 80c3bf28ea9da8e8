// A detector is a row of a table: the code it may raise, and the function that looks.
//
// A detector without its data stays silent (nullopt); the report says what could not be measured.
#pragma once

#include <optional>

#include "lockstep/finding.hpp"
#include "lockstep/signals.hpp"

namespace lockstep {

struct Detector {
  FindingCode code;
  std::optional<Finding> (*inspect)(const Signals& signals);
};

}  // namespace lockstep
