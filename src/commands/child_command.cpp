#include "commands/child_command.hpp"

#include <fmt/format.h>

#include <csignal>
#include <thread>
#include <utility>

#include "base/clock.hpp"
#include "base/interrupt.hpp"
#include "base/redact.hpp"
#include "base/text.hpp"

namespace lockstep {

using namespace std::chrono_literals;

ChildEnd wait_for(Subprocess& command) {
  bool handed_on = false;
  while (!command.poll()) {
    if (interrupted_by() != 0 && !std::exchange(handed_on, true) && !interrupted_from_terminal())
      command.send(interrupted_by());
    std::this_thread::sleep_for(10ms);
  }
  return *command.poll();
}

std::string in_words(const ChildEnd& end) {
  return end.ended_by_signal ? fmt::format("was ended by signal {}", *end.ended_by_signal)
                             : fmt::format("ended with code {}", end.exit_code);
}

Result<ChildCommand> ChildCommand::start(
    const SharedOptions& options, const std::optional<std::vector<std::string>>& environment) {
  ChildCommand child;
  if (options.command.empty()) return child;
  auto process = TRY(Subprocess::start(options.command,
                                       options.output.empty() || options.output == "-"
                                           ? ChildOutput::to_stderr
                                           : ChildOutput::untouched,
                                       -1, environment));
  child.command_ = redact_command(options.command);
  child.process_.emplace(std::move(process));
  return child;
}

int ChildCommand::finish(AtEnd how) {
  if (!process_) return 0;
  if (how == AtEnd::stop && running()) {
    stopped_ = true;
    process_->end(2s);
  }
  const ChildEnd end = wait_for(*process_);
  if (stopped_ || end.exit_code == 0) return 0;
  fmt::print(stderr, "lockstep: the command {}: {}\n", in_words(end),
             printable(join(command_, " ")));
  return end.exit_code;
}

std::optional<CommandReport> ChildCommand::report() {
  if (!process_) return std::nullopt;
  CommandReport report;
  report.command = command_;
  report.stopped_by_lockstep = stopped_;
  if (const auto end = process_->poll()) report.exit_code = end->exit_code;
  return report;
}

}  // namespace lockstep
