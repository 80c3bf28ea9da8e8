// The guard stands between the launcher and the ranks, so that nothing is left behind whoever dies.
//
// It is a fork of the launcher with a session of its own (no Ctrl-C reaches it), one thread, and it
// is a child subreaper: whatever a rank starts stays below the guard when the rank dies. Ranks are
// killed by the kernel when the guard dies (PDEATHSIG, which follows the thread that forked: hence
// one thread), and what they leave comes to the launcher, a subreaper too. When the launcher dies
// its end of the socket closes: the guard ends everything below it and itself. Where it ends: when
// guard and launcher are killed at the same moment the ranks die with the guard, but not what they
// started.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/result.hpp"

namespace lockstep {

// One rank to start: what it runs, with what around it.
struct RankStart {
  std::vector<std::string> command;
  std::vector<std::string> environment;  // NAME=value
  std::string stdout_file;               // empty: the launcher's own
  std::string stderr_file;
  std::optional<cpu_set_t> processors;  // nothing: wherever the kernel likes
  std::optional<int> memory_node;       // where memory comes from as long as there is some
};

struct GuardPlan {
  std::vector<RankStart> ranks;  // by local rank
  std::chrono::nanoseconds grace{};
  std::string scratch_folder;  // removed should the launcher die; empty: none
};

struct GuardEvent {
  enum class Kind : std::uint8_t {
    started,      // value: pid
    not_started,  // value: errno of what failed
    ended,        // value: wait status
    finished,     // all ranks and all they started are gone
    lost,         // the guard itself died
  };
  Kind kind = Kind::finished;
  int local_rank = -1;
  int value = 0;
  std::chrono::nanoseconds at{};  // monotonic
};

class Guard {
 public:
  // Forks. The caller must have one thread and be a subreaper (become_subreaper).
  static Result<Guard> start(const GuardPlan& plan);
  Guard(Guard&& other) noexcept;
  Guard& operator=(Guard&&) = delete;
  ~Guard();  // lets go of it: it ends whatever still runs, within the grace, and is waited for

  int descriptor() const { return socket_; }
  pid_t pid() const { return pid_; }
  // The next event; nothing when none is there.
  std::optional<GuardEvent> next();

  void stop(int signal);  // the signal to the ranks' groups, the grace, SIGKILL
  void kill_now();
  void pass_on(int signal) const;  // to the ranks themselves, no more

 private:
  Guard(pid_t pid, int socket) : pid_(pid), socket_(socket) {}
  pid_t pid_;
  int socket_;
};

// In a fork: closes every descriptor but the standard three and this one.
void close_all_but(int kept);

// Orphans of descendants come to this process from now on.
void become_subreaper();

}  // namespace lockstep
