// Signals by their names, as people write them on command lines.
#pragma once

#include <csignal>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep {

inline constexpr std::pair<std::string_view, int> kSignalNames[] = {
    {"SIGHUP", SIGHUP},   {"SIGINT", SIGINT},   {"SIGQUIT", SIGQUIT}, {"SIGILL", SIGILL},
    {"SIGTRAP", SIGTRAP}, {"SIGABRT", SIGABRT}, {"SIGBUS", SIGBUS},   {"SIGFPE", SIGFPE},
    {"SIGKILL", SIGKILL}, {"SIGUSR1", SIGUSR1}, {"SIGSEGV", SIGSEGV}, {"SIGUSR2", SIGUSR2},
    {"SIGPIPE", SIGPIPE}, {"SIGALRM", SIGALRM}, {"SIGTERM", SIGTERM}, {"SIGCONT", SIGCONT},
    {"SIGTSTP", SIGTSTP}, {"SIGXCPU", SIGXCPU}, {"SIGXFSZ", SIGXFSZ}, {"SIGWINCH", SIGWINCH},
    {"SIGSYS", SIGSYS}};

inline std::optional<int> signal_number(std::string_view name) {
  for (const auto& [known, number] : kSignalNames)
    if (known == name) return number;
  return std::nullopt;
}

inline std::string signal_name(int number) {
  for (const auto& [name, known] : kSignalNames)
    if (known == number) return std::string(name);
  return "signal " + std::to_string(number);
}

}  // namespace lockstep
