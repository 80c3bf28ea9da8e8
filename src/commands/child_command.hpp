// The user's command after --: started, waited for or ended, its signals passed on, its end told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/subprocess.hpp"
#include "commands/shared_options.hpp"
#include "lockstep/report.hpp"

namespace lockstep {

class ChildCommand {
 public:
  enum class AtEnd : std::uint8_t {
    wait,  // however long it takes; an interrupt is handed on
    stop,  // SIGTERM, two seconds, SIGKILL
  };

  // Nothing is started where there is no command.
  static Result<ChildCommand> start(
      const SharedOptions& options,
      const std::optional<std::vector<std::string>>& environment = std::nullopt);

  bool started() const { return process_.has_value(); }
  bool running() { return process_ && !process_->poll(); }
  bool ended() { return process_ && process_->poll().has_value(); }
  int pid() const { return process_->pid(); }
  // Its exit code as a shell would say it; 0 where nothing ran or where lockstep ended it.
  int finish(AtEnd how);
  std::optional<CommandReport> report();

 private:
  std::vector<std::string> command_;
  std::optional<Subprocess> process_;
  bool stopped_ = false;
};

// Waits for a command, however long it takes. An interrupt is handed on once; Ctrl-C at the
// terminal reaches it anyway.
ChildEnd wait_for(Subprocess& command);

// "ended with code 1", "was ended by signal 9".
std::string in_words(const ChildEnd& end);

}  // namespace lockstep
