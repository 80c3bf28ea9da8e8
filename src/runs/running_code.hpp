// Reads the scripts of the processes that a report speaks of, and joins what their code says.
#pragma once

#include <string>
#include <vector>

#include "lockstep/report.hpp"

namespace lockstep {

// For processes of this machine. `own_command` is what lockstep itself started, which may have
// ended.
void add_code_of_processes(Report& report, const std::vector<std::string>& own_command);

}  // namespace lockstep
