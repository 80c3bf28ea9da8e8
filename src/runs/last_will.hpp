// What is done should lockstep be killed (kill -9, the machine short of memory) while its probes
// are in a command: whatever runs with them is ended, with all that it started, and their folder is
// removed.
//
// A fork with a session of its own waits at a socket for that, from before the command is started.
// It is no parent of the command, whose terminal, group and exit code stay as they are.
#pragma once

#include <sys/types.h>

#include <filesystem>

namespace lockstep {

class LastWill {
 public:
  LastWill() = default;
  explicit LastWill(const std::filesystem::path& probe_folder);
  LastWill(LastWill&& other) noexcept;
  LastWill& operator=(LastWill&& other) noexcept;
  ~LastWill();  // nothing is left to do

 private:
  void tear_up();
  pid_t keeper_ = -1;
  int socket_ = -1;
};

}  // namespace lockstep
