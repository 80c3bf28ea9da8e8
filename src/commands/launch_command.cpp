#include <cstdlib>

#include "commands/command_line.hpp"
#include "commands/launch_beside.hpp"
#include "launch/launch_arguments.hpp"
#include "launch/launcher.hpp"

namespace lockstep {

// The words are read by torchrun's rules, not by CLI11's: the options here are for help, completions and the man page.
Run configure_launch(CLI::App& app, RawOptions& raw) {
  for (const LaunchFlag& flag : launch_flags()) {
    const std::string names = flag.short_name[0] == '\0' ? flag.name : std::string(flag.short_name) + "," + flag.name;
    if (flag.value_name[0] == '\0') app.add_flag(names, flag.help);
    else app.add_option(names, flag.help)->type_name(flag.value_name)->expected(1);
  }
  app.add_option("SCRIPT", "what each rank runs; what follows is its own")->type_name("");
  return [&raw]() -> Result<int> {
    auto settings = parse_launch_arguments(raw.command, [](const std::string& name) -> std::optional<std::string> {
      const char* const value = std::getenv(name.c_str());
      return value == nullptr ? std::nullopt : std::optional<std::string>(value);
    });
    if (!settings) return std::move(settings).error();
    const Beside beside = beside_the_ranks(settings->watch, settings->quiet || !settings->checks);
    return run_launch(std::move(*settings), beside);
  };
}

}  // namespace lockstep
