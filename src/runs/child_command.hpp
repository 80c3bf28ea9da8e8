// A command that lockstep starts: waited for or ended, its signals passed on, its end told.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/output_file.hpp"
#include "base/subprocess.hpp"
#include "lockstep/report.hpp"

namespace lockstep {

class ChildCommand {
 public:
  enum class AtEnd : std::uint8_t {
    wait,  // however long it takes; an interrupt is handed on
    stop,  // SIGTERM, two seconds, SIGKILL
  };

  // Nothing is started where there is no command. What is written to_file is kept: see output().
  static Result<ChildCommand> start(
      const std::vector<std::string>& command, ChildOutput output,
      const std::optional<std::vector<std::string>>& environment = std::nullopt);

  bool started() const { return process_.has_value(); }
  bool running() { return process_ && !process_->poll(); }
  bool ended() { return process_ && process_->poll().has_value(); }
  int pid() const { return process_->pid(); }
  std::optional<ChildEnd> end() { return process_ ? process_->poll() : std::nullopt; }
  // Its exit code as a shell would say it; 0 where nothing ran or where lockstep ended it. Says so
  // when it failed.
  int finish(AtEnd how);
  // The same in silence: ends it where it still runs.
  ChildEnd end_within(std::chrono::milliseconds patience) { return process_->end(patience); }
  ChildEnd wait() { return process_->wait(); }
  std::string output() const { return lines_ ? lines_->content() : std::string(); }
  std::optional<CommandReport> report();

 private:
  std::vector<std::string> command_;
  std::unique_ptr<OutputFile> lines_;
  std::optional<Subprocess> process_;
  bool stopped_ = false;
};

// "ended with code 1", "was ended by signal 9".
std::string in_words(const ChildEnd& end);

}  // namespace lockstep
