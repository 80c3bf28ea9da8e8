#include "launch/guard/side_process.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>
#include <utility>

#include "base/clock.hpp"
#include "launch/guard/guard.hpp"

namespace lockstep {

SideProcess::~SideProcess() { finish(std::chrono::nanoseconds(0)); }

void SideProcess::start(const std::function<void(int ended)>& work) {
  int ends[2];
  if (pid_ > 0 || ::pipe2(ends, O_CLOEXEC) != 0) return;
  const pid_t launcher = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    close_all_but(ends[0]);
    ::setsid();  // the terminal's Ctrl-C is the launcher's
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
    ::prctl(PR_SET_NAME, "lockstep-beside");
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    if (::getppid() == launcher) work(ends[0]);
    ::_exit(0);  // what the launcher holds is not this process's to put away
  }
  ::close(ends[0]);
  until_ = ends[1];
}

void SideProcess::tell_end() {
  if (until_ >= 0) ::close(std::exchange(until_, -1));
}

bool SideProcess::has_ended() {
  if (pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) != 0) pid_ = -1;
  return pid_ <= 0;
}

void SideProcess::finish(std::chrono::nanoseconds patience) {
  tell_end();
  const auto until = monotonic_now() + patience;
  while (!has_ended()) {
    if (monotonic_now() >= until) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
      pid_ = -1;
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace lockstep
