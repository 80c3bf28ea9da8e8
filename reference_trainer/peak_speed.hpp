// What a GPU could compute at best, for the share of it that a model uses (MFU).
#pragma once

#include <optional>
#include <string>

#include "reference_trainer/precision.hpp"

namespace lockstep {

// Dense operations a second in 10^12, from the vendors' data sheets; nothing: the name is not
// known.
std::optional<double> peak_tflops(const std::string& device_name, Precision precision);

}  // namespace lockstep
