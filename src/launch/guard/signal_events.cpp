#include "launch/guard/signal_events.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>

#include "base/text.hpp"
#include "launch/guard/signal_names.hpp"

namespace lockstep {

SignalEvents::SignalEvents(const std::string& ending_names) {
  sigset_t watched;
  ::sigemptyset(&watched);
  for (const int signal : {SIGUSR1, SIGUSR2, SIGWINCH}) ::sigaddset(&watched, signal);
  for (const std::string_view name : split(ending_names, ',')) {
    const int signal = signal_number(trim(name)).value_or(0);
    struct sigaction before{};
    ::sigaction(signal, nullptr, &before);
    // nohup: what was to be ignored stays so. (A shell's background jobs have SIGINT ignored too,
    // but a launcher is to hear it.)
    if (signal == 0 || signal == SIGKILL || (signal == SIGHUP && before.sa_handler == SIG_IGN))
      continue;
    ::sigaddset(&watched, signal);
  }
  ::sigprocmask(SIG_BLOCK, &watched, nullptr);
  descriptor_ = ::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
}

SignalEvents::~SignalEvents() { ::close(descriptor_); }

int SignalEvents::next() {
  signalfd_siginfo signal{};
  if (::read(descriptor_, &signal, sizeof signal) != static_cast<ssize_t>(sizeof signal)) return 0;
  const int number = static_cast<int>(signal.ssi_signo);
  if (ended_by_ == 0 && !is_handed_on(number)) ended_by_ = number;
  return number;
}

void SignalEvents::wait(int descriptor, int milliseconds) const {
  pollfd watched[2] = {{descriptor_, POLLIN, 0}, {descriptor, POLLIN, 0}};
  ::poll(watched, descriptor < 0 ? 1 : 2, milliseconds);
}

bool SignalEvents::is_handed_on(int signal) {
  return signal == SIGUSR1 || signal == SIGUSR2 || signal == SIGWINCH;
}

}  // namespace lockstep
