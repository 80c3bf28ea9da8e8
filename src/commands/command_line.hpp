// The table of commands, the one catch, and the exit codes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "commands/shared_options.hpp"
#include "lockstep/result.hpp"
#include "runs/exit_code.hpp"

namespace lockstep {

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

int run_command_line(int argc, char** argv);

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
