// The live screen's setup in the config file: read at the start, written by F2.
#pragma once

#include <filesystem>

#include "lockstep/result.hpp"
#include "render/tui/monitor_state.hpp"

namespace lockstep {

// The defaults where the file or its "monitor" part is not there.
Result<MonitorSetup> load_monitor_setup(const std::filesystem::path& config);

// Changes the file's "monitor" part and nothing else of it.
Status save_monitor_setup(const std::filesystem::path& config, const MonitorSetup& setup);

}  // namespace lockstep
