// The whole command line as CLI11 sees it, for parsing, help, completions and the man page.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "commands/command_line.hpp"

namespace lockstep {

struct CommandLine {
  RawOptions raw;
  CLI::App app{"lockstep tells you why your GPUs are not busy"};
  std::vector<std::pair<CLI::App*, Run>> runs;
  bool version = false;
};
std::unique_ptr<CommandLine> make_command_line();

}  // namespace lockstep
