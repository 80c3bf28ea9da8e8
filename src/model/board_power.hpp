// The power limit that a GPU leaves the factory with, by its name.
#pragma once

#include <optional>
#include <string_view>

namespace lockstep {

// In mW, from NVIDIA's data sheets. Nothing: the name is not known, or its makers choose.
std::optional<double> board_power_mw(std::string_view driver_name);

}  // namespace lockstep
