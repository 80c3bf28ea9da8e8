#include "runs/last_will.hpp"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/proc.hpp"
#include "launch/guard/guard.hpp"
#include "launch/guard/process_tree.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

constexpr auto kGrace = 5s;  // a launcher ends its ranks, a trainer may save

bool has_probes_of(int pid, const std::filesystem::path& folder) {
  constexpr std::size_t kLargest = 1 << 20;
  const auto text = read_small_file("/proc/" + std::to_string(pid) + "/environ", kLargest);
  if (!text) return false;
  const std::string between(1, '\0');
  return (between + *text).find(between + "LOCKSTEP_PROBE_FOLDER=" + folder.string() + between) !=
         std::string::npos;
}

// What runs with the probes, and what that started without them.
std::vector<TreeProcess> left_of(const std::filesystem::path& folder) {
  std::vector<TreeProcess> found;
  for_each_number_in("/proc", [&](int pid) {
    if (pid == ::getpid() || !has_probes_of(pid, folder)) return;
    found.push_back({.pid = pid});
    for (const TreeProcess& below : descendants_of(pid))
      if (!below.zombie) found.push_back(below);
  });
  return found;
}

void carry_out(const std::filesystem::path& folder) {
  const auto forced_from = monotonic_now() + kGrace;
  signal_all(left_of(folder), SIGTERM);
  while (monotonic_now() < forced_from + 10s) {
    const std::vector<TreeProcess> still = left_of(folder);
    if (still.empty()) break;
    if (monotonic_now() >= forced_from) signal_all(still, SIGKILL);
    std::this_thread::sleep_for(20ms);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

}  // namespace

LastWill::LastWill(const std::filesystem::path& probe_folder) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  keeper_ = ::fork();
  if (keeper_ == 0) {
    close_all_but(ends[0]);
    ::setsid();  // the terminal's signals are not for it
    ::prctl(PR_SET_NAME, "lockstep-will");
    ::signal(SIGTERM, SIG_IGN);
    ::signal(SIGINT, SIG_IGN);
    ::signal(SIGHUP, SIG_IGN);
    for (const int standard : {0, 1, 2}) ::close(standard);  // who reads them waits for their end
    char told = 0;
    ssize_t got = 0;
    while ((got = ::read(ends[0], &told, 1)) < 0 && errno == EINTR) {
    }
    if (got == 0) carry_out(probe_folder);  // it closed without a word
    ::_exit(0);
  }
  ::close(ends[0]);
  socket_ = ends[1];
}

LastWill::LastWill(LastWill&& other) noexcept
    : keeper_(std::exchange(other.keeper_, -1)), socket_(std::exchange(other.socket_, -1)) {}

LastWill& LastWill::operator=(LastWill&& other) noexcept {
  if (this == &other) return *this;
  tear_up();
  keeper_ = std::exchange(other.keeper_, -1);
  socket_ = std::exchange(other.socket_, -1);
  return *this;
}

LastWill::~LastWill() { tear_up(); }

void LastWill::tear_up() {
  if (socket_ >= 0) {
    const char word = 1;
    while (::send(socket_, &word, 1, MSG_NOSIGNAL) < 0 && errno == EINTR) {
    }
    ::close(std::exchange(socket_, -1));
  }
  if (keeper_ > 0) ::waitpid(std::exchange(keeper_, -1), nullptr, 0);
}

}  // namespace lockstep
