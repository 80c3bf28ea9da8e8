// What each rank executes, checked before anything is started.
#pragma once

#include <string>
#include <vector>

#include "launch/arguments/launch_settings.hpp"
#include "launch/ranks/rank_environment.hpp"
#include "lockstep/result.hpp"

namespace lockstep {

// $PYTHON_EXEC or the python of PATH, -u, [-m], the script and its arguments; with --no-python the
// script itself.
Result<std::vector<std::string>> rank_command(const LaunchSettings& settings,
                                              const Variables& around);

// $PYTHON_EXEC, else python, else python3 of PATH.
Result<std::string> own_python(const Variables& around);

}  // namespace lockstep
