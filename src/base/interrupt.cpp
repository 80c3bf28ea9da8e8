#include "base/interrupt.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <initializer_list>

namespace lockstep {
namespace {

volatile std::sig_atomic_t interrupted = 0;
volatile std::sig_atomic_t from_terminal = 0;

std::atomic<void (*)()> last_act = nullptr;
std::atomic<int> woken = -1;

void note(int signal, siginfo_t* information, void*) {
  if (interrupted != 0) {
    if (void (*const put_right)() = last_act) put_right();
    ::_exit(130);
  }
  from_terminal = information->si_code == SI_KERNEL ? 1 : 0;
  interrupted = signal;
  const int saved = errno;
  if (const int descriptor = woken; descriptor >= 0) [[maybe_unused]]
    const auto ignored = ::write(descriptor, "i", 1);
  errno = saved;
}

}  // namespace

void watch_for_interrupts() {
  struct sigaction action{};
  action.sa_sigaction = note;
  action.sa_flags = SA_SIGINFO;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
}

void wake_on_interrupt(int descriptor) { woken = descriptor; }

void before_forced_exit(void (*put_right)()) { last_act = put_right; }

int interrupted_by() { return interrupted; }
bool interrupted_from_terminal() { return from_terminal != 0; }

}  // namespace lockstep
