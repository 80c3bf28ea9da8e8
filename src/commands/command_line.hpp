// The table of commands, the one catch, and the exit codes.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "commands/shared_options.hpp"
#include "lockstep/result.hpp"

namespace lockstep {

// Exit codes, the same for every command.
namespace exit_code {
inline constexpr int kDone = 0;
inline constexpr int kFindings = 1;
inline constexpr int kUsage = 2;
inline constexpr int kCannotMeasure = 3;
inline constexpr int kCommandFailed = 4;
inline constexpr int kInterrupted = 130;
}  // namespace exit_code

// What a command does once its options are read: its exit code, or an error.
using Run = std::function<Result<int>()>;

// What may follow a command's name.
enum class Takes : std::uint8_t {
  options,
  options_and_command,  // `-- CMD...` at the end
  its_own_words,        // read by the command itself: torchrun's rules are not CLI11's
};

struct CommandRow {
  const char* name;
  const char* summary;      // one line, for help and the man page
  const char* description;  // a paragraph
  Takes takes;
  Run (*configure)(CLI::App& app, RawOptions& raw);
};
std::span<const CommandRow> all_commands();

// The whole command line as CLI11 sees it, for help, completions and the man page.
struct CommandLine {
  RawOptions raw;
  CLI::App app{"lockstep tells you why your GPUs are not busy"};
  std::vector<std::pair<CLI::App*, Run>> runs;
  bool version = false;
};
std::unique_ptr<CommandLine> make_command_line();

int run_command_line(int argc, char** argv);

// Says an error and its next step on standard error; the exit code that goes with it.
int report_error(const Error& error);

// One row each; the files are named after them.
Run configure_monitor(CLI::App& app, RawOptions& raw);
Run configure_record(CLI::App& app, RawOptions& raw);
Run configure_diagnose(CLI::App& app, RawOptions& raw);
Run configure_bench(CLI::App& app, RawOptions& raw);
Run configure_doctor(CLI::App& app, RawOptions& raw);
Run configure_export(CLI::App& app, RawOptions& raw);
Run configure_explain(CLI::App& app, RawOptions& raw);
Run configure_fix(CLI::App& app, RawOptions& raw);
Run configure_plan(CLI::App& app, RawOptions& raw);
Run configure_profile(CLI::App& app, RawOptions& raw);
Run configure_trace(CLI::App& app, RawOptions& raw);
Run configure_launch(CLI::App& app, RawOptions& raw);
Run configure_demo(CLI::App& app, RawOptions& raw);
Run configure_train(CLI::App& app, RawOptions& raw);
Run configure_completions(CLI::App& app, RawOptions& raw);
Run configure_man(CLI::App& app, RawOptions& raw);

}  // namespace lockstep
