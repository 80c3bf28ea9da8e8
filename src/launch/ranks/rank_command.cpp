#include "launch/ranks/rank_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "base/text.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

bool is_program(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

// The whole path of a program, as a shell would find it; empty: it is nowhere.
std::string found_on_path(const std::string& program, const Variables& around) {
  if (program.find('/') != std::string::npos) return is_program(program) ? program : std::string();
  const std::string path = value_of(around, "PATH");
  for (const std::string_view folder : split(path, ':'))
    if (const fs::path candidate = fs::path(folder.empty() ? "." : folder) / program;
        is_program(candidate))
      return candidate.string();
  return {};
}

bool is_binary(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::array<char, 4> magic{};
  return stream.read(magic.data(), magic.size()) && magic == std::array{'\x7f', 'E', 'L', 'F'};
}

Status check_script(const LaunchSettings& settings, const Variables& around) {
  const std::string& script = settings.script;
  std::error_code ignored;
  if (settings.no_python) {
    if (!found_on_path(script, around).empty()) return Done{};
    if (fs::is_regular_file(script, ignored))
      return usage_error(
          fmt::format("{} is not executable", printable(script)),
          fmt::format("chmod +x {}, or leave --no-python out", printable(shell_quoted(script))));
    if (fs::is_directory(script, ignored))
      return usage_error(fmt::format("{} is a folder", printable(script)),
                         "name the program in it");
    return usage_error(fmt::format("there is no program {}", printable(script)),
                       "check its name and PATH");
  }
  if (settings.module) return Done{};  // python knows where its modules are
  if (!fs::exists(script, ignored))
    return usage_error(fmt::format("there is no script {}", printable(script)),
                       fmt::format("you are in {}; -m runs a module, --no-python a program",
                                   printable(fs::current_path(ignored).string())));
  if (fs::is_directory(script, ignored) && !fs::exists(fs::path(script) / "__main__.py", ignored))
    return usage_error(fmt::format("{} is a folder", printable(script)), "name the script in it");
  if (::access(script.c_str(), R_OK) != 0)
    return usage_error(fmt::format("{} cannot be read", printable(script)),
                       "check its permissions");
  if (is_binary(script))
    return usage_error(fmt::format("{} is a program, not a Python script", printable(script)),
                       "add --no-python");
  return Done{};
}

}  // namespace

Result<std::string> own_python(const Variables& around) {
  const std::string wanted = value_of(around, "PYTHON_EXEC");
  if (!wanted.empty()) {
    const std::string found = found_on_path(wanted, around);
    if (found.empty())
      return usage_error(fmt::format("PYTHON_EXEC={} is no program", printable(wanted)),
                         "unset it, or set it to your python");
    return found;
  }
  for (const char* name : {"python", "python3"})
    if (const std::string found = found_on_path(name, around); !found.empty()) return found;
  return Error{"there is no python on PATH",
               "activate your environment, set PYTHON_EXEC, or use --no-python for a program"};
}

Result<std::vector<std::string>> rank_command(const LaunchSettings& settings,
                                              const Variables& around) {
  TRY(check_script(settings, around));
  std::vector<std::string> command;
  if (!settings.no_python) {
    auto interpreter = TRY(own_python(around));
    command = {interpreter, "-u"};
    if (settings.module) command.emplace_back("-m");
  }
  command.push_back(settings.script);
  command.insert(command.end(), settings.script_arguments.begin(), settings.script_arguments.end());
  return command;
}

}  // namespace lockstep
