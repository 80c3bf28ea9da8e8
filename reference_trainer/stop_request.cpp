#include "reference_trainer/stop_request.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace lockstep {
namespace {

constexpr double kLeastPatience_s = 5;
constexpr double kMostPatience_s = 3600;
// before it is known how far apart they are: what launchers wait before they kill
constexpr unsigned kFirstMeeting_s = 30;

// A signal handler reads nothing else.
std::atomic<bool> is_asked;
std::atomic<bool> all_know;
std::atomic<unsigned> patience_s;
struct sigaction before;

void ask(int) {
  if (is_asked.exchange(true)) return;  // schedulers send it again and again
  if (!all_know) ::alarm(patience_s);
}

void end_as_before() {
  ::sigaction(SIGTERM, &before, nullptr);
  ::raise(SIGTERM);
}

void give_up_waiting(int) {
  constexpr std::string_view kWords =
      "lockstep-train: told to end (SIGTERM), and the other ranks do not come to save with this "
      "one: it ends unsaved\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kWords.data(), kWords.size());
  end_as_before();
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action{};
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
  handle(SIGALRM, give_up_waiting);
  handle(SIGTERM, ask);
}

StopRequest::~StopRequest() {
  ::alarm(0);
  ::sigaction(SIGTERM, &before, nullptr);
}

bool StopRequest::is_made() { return is_asked; }

void StopRequest::expect_meeting_every(std::chrono::duration<double> time) {
  longest_ = std::max(longest_, time);
  patience_s = static_cast<unsigned>(
      std::ceil(std::clamp(3 * longest_.count(), kLeastPatience_s, kMostPatience_s)));
}

void StopRequest::is_agreed() {
  all_know = true;
  ::alarm(0);
}

void StopRequest::end() {
  end_as_before();
  std::_Exit(128 + SIGTERM);  // where it is ignored or blocked
}

}  // namespace lockstep
