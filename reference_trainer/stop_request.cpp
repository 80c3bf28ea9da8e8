#include "reference_trainer/stop_request.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

namespace lockstep {
namespace {

using namespace std::chrono_literals;

constexpr unsigned kFirstMeeting_s = 30;  // before it is known how far apart they are: what launchers wait before they kill

// A signal handler reads nothing else.
std::atomic<bool> is_asked;
std::atomic<bool> all_know;
std::atomic<unsigned> patience_s;
struct sigaction before;

void ask(int) {
  if (is_asked.exchange(true)) return;  // schedulers send it again and again
  if (!all_know) ::alarm(patience_s);
}

void end_as_before(int) {
  ::sigaction(SIGTERM, &before, nullptr);
  ::raise(SIGTERM);
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

StopRequest::StopRequest() {
  is_asked = all_know = false;
  patience_s = kFirstMeeting_s;
  ::sigaction(SIGTERM, nullptr, &before);
  if (before.sa_handler == SIG_IGN) return;
  handle(SIGALRM, end_as_before);
  handle(SIGTERM, ask);
}

StopRequest::~StopRequest() {
  ::alarm(0);
  ::sigaction(SIGTERM, &before, nullptr);
}

bool StopRequest::is_made() { return is_asked; }

void StopRequest::expect_meeting_every(std::chrono::nanoseconds time) {
  patience_s = static_cast<unsigned>(std::chrono::ceil<std::chrono::seconds>(std::clamp<std::chrono::nanoseconds>(3 * time, 5s, 1h)).count());
}

void StopRequest::is_agreed() {
  all_know = true;
  ::alarm(0);
}

void StopRequest::end() {
  end_as_before(SIGTERM);
  std::_Exit(128 + SIGTERM);  // where it is ignored or blocked
}

}  // namespace lockstep
