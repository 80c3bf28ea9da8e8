// What F2 shows and changes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "render/tui/monitor_state.hpp"

namespace lockstep {

// The rows of the setup, as they read now.
struct SetupRow {
  std::string_view name;
  std::string value;
};
std::vector<SetupRow> setup_rows(const MonitorSetup& setup);

inline constexpr int kLanesRow = 0;

// The next value of a row, or the one before.
void change_setup(MonitorSetup& setup, int row, int by);

}  // namespace lockstep
