// Everything below a process, and the end of it. A subreaper keeps all of its descendants below
// itself, whatever they do to get away: looking down the tree finds every one.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <vector>

namespace lockstep {

struct TreeProcess {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t session = 0;
  bool zombie = false;  // dead, and waiting for its parent to notice
};

// All below `root`, itself not among them.
std::vector<TreeProcess> descendants_of(pid_t root);

// Sends a signal to all of them that live.
void signal_all(const std::vector<TreeProcess>& processes, int signal);

// Takes dead children off the list of processes.
void reap_children();

// Ends all below this process: SIGTERM, `grace`, SIGKILL until none is left.
// Returns after a minute at the latest: a process that waits in the kernel cannot be killed.
void end_descendants(std::chrono::nanoseconds grace);

}  // namespace lockstep
