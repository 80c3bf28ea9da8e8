// Runs a user's command beside us: its streams, its signals, its end.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/result.hpp"

namespace lockstep {

enum class ChildOutput : std::uint8_t {
  untouched,  // stdout stays the command's own
  to_stderr,  // stdout carries our result: the command's output joins the words on stderr
  to_file,    // an open file
};

struct ChildEnd {
  int exit_code = 0;  // as a shell would say it: 128+n for a signal
  std::optional<int> ended_by_signal;
};

class Subprocess {
 public:
  // `file`: for ChildOutput::to_file; it stays the caller's. `environment`: NAME=value entries
  // instead of our own.
  static Result<Subprocess> start(
      const std::vector<std::string>& command, ChildOutput output, int file = -1,
      const std::optional<std::vector<std::string>>& environment = std::nullopt);
  Subprocess(Subprocess&& other) noexcept;
  Subprocess& operator=(Subprocess&&) = delete;
  ~Subprocess();  // ends a child that still runs, within two seconds

  pid_t pid() const { return pid_; }
  std::optional<ChildEnd> poll();  // its end, once it came to it
  ChildEnd wait();
  void send(int signal) const;
  // SIGTERM, and SIGKILL where it has not ended after that time
  ChildEnd end(std::chrono::milliseconds patience);

 private:
  explicit Subprocess(pid_t pid) : pid_(pid) {}
  pid_t pid_;
  std::optional<ChildEnd> end_;
};

}  // namespace lockstep
