#include "runs/child_command.hpp"

#include <fmt/format.h>

#include <csignal>
#include <thread>
#include <utility>

#include "base/clock.hpp"
#include "base/interrupt.hpp"
#include "base/redact.hpp"
#include "base/text.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// However long it takes. An interrupt is handed on once; Ctrl-C at the terminal reaches it anyway.
ChildEnd wait_for(Subprocess& command) {
  bool handed_on = false;
  while (!command.poll()) {
    if (interrupted_by() != 0 && !std::exchange(handed_on, true) && !interrupted_from_terminal())
      command.send(interrupted_by());
    std::this_thread::sleep_for(10ms);
  }
  return *command.poll();
}

}  // namespace

std::string in_words(const ChildEnd& end) {
  return end.ended_by_signal ? fmt::format("was ended by signal {}", *end.ended_by_signal)
                             : fmt::format("ended with code {}", end.exit_code);
}

Result<ChildCommand> ChildCommand::start(
    const std::vector<std::string>& command, ChildOutput output,
    const std::optional<std::vector<std::string>>& environment) {
  ChildCommand child;
  if (command.empty()) return child;
  if (output == ChildOutput::to_file) child.lines_ = std::make_unique<OutputFile>();
  child.process_.emplace(TRY(Subprocess::start(
      command, output, child.lines_ ? child.lines_->descriptor() : -1, environment)));
  child.command_ = redact_command(command);
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
