// What the code of a running process says: the same findings as `lockstep fix`, for the script that
// its command line names.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/report.hpp"

namespace lockstep {

struct RunningScript {
  std::vector<std::string> command;
  std::filesystem::path folder;                     // the process's working folder
  std::optional<int> gpus;                          // that it holds
  std::optional<FindingCode> short_of_memory = {};  // B502 or B506, where it was seen
};

// The script that `python [-u] train.py ...` runs; nothing for other programs.
std::optional<std::filesystem::path> script_of(const RunningScript& running);

// Nothing when the command runs no script that can be read.
std::optional<Report> code_report(const RunningScript& running);

}  // namespace lockstep
