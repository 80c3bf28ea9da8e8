#include "capture/resting_daemon.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/file.hpp"
#include "base/text.hpp"
#include "capture/kineto_socket.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// The fork's whole life. It never goes back into the program, and goes with its parent.
[[noreturn]] void rest(KinetoSocket& socket, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_NAME, "lockstep-rest");
  ::signal(SIGINT, SIG_IGN);  // the terminal's is for the training
  ::signal(SIGTERM, SIG_DFL);
  if (::getppid() != parent) ::_exit(0);
  while (true) {
    pollfd wait{socket.descriptor(), POLLIN, 0};
    if (::poll(&wait, 1, -1) < 0) continue;
    if (const auto heard = socket.receive()) socket.answer(*heard, "");
  }
}

constexpr const char* kFolderPrefix = "kineto-";

bool is_own_folder(const fs::path& folder) {
  struct stat facts{};
  return ::lstat(folder.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) &&
         facts.st_uid == ::getuid() && (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// Of launchers that were killed.
void remove_those_left_behind(const fs::path& parent) {
  std::error_code problem;
  for (fs::directory_iterator entry(parent, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(kFolderPrefix)) continue;
    const auto pid = parse_integer(std::string_view(name).substr(std::strlen(kFolderPrefix)));
    std::error_code ignored;
    const bool gone =
        pid && *pid > 0 &&
        ((::kill(static_cast<pid_t>(*pid), 0) != 0 && errno == ESRCH) || *pid == ::getpid());
    if (gone) fs::remove_all(entry->path(), ignored);
  }
}

}  // namespace

RestingDaemon RestingDaemon::start() {
  RestingDaemon result;
  for (const char* const name : {"KINETO_USE_DAEMON", "KINETO_IPC_SOCKET_DIR", "KINETO_CONFIG"})
    if (std::getenv(name) != nullptr) return result;  // the user's own
  const fs::path parent = runtime_folder();
  ::mkdir(parent.c_str(), 0700);
  if (!is_own_folder(parent)) return result;  // whoever owns it could answer in our place
  remove_those_left_behind(parent);
  const fs::path folder = parent / (kFolderPrefix + std::to_string(::getpid()));
  if (::mkdir(folder.c_str(), 0700) != 0) return result;
  auto socket = KinetoSocket::in_folder(folder);
  // Asked every second instead of every five, a trace begins sooner.
  const bool ready =
      socket &&
      write_file_atomically(folder / "kineto.conf", "ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS=1\n") &&
      write_file_atomically(folder / kRestingMark, "");
  const pid_t own = ::getpid();
  const pid_t child = ready ? ::fork() : -1;
  if (child == 0) rest(*socket, own);
  if (child > 0) {
    socket->leave_to_another();
    result.folder_ = folder;
    result.pid_ = child;
    return result;
  }
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  return result;
}

RestingDaemon::RestingDaemon(RestingDaemon&& other) noexcept
    : folder_(std::exchange(other.folder_, {})), pid_(std::exchange(other.pid_, -1)) {}

RestingDaemon& RestingDaemon::operator=(RestingDaemon&& other) noexcept {
  if (this == &other) return *this;
  stop();
  folder_ = std::exchange(other.folder_, {});
  pid_ = std::exchange(other.pid_, -1);
  return *this;
}

RestingDaemon::~RestingDaemon() { stop(); }

void RestingDaemon::stop() {
  if (pid_ <= 0) return;
  // else somebody has reaped it, and the number may be another's
  if (::waitpid(pid_, nullptr, WNOHANG) == 0) {
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  pid_ = -1;
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::map<std::string, std::string> RestingDaemon::variables() const {
  if (pid_ <= 0) return {};
  // Its own lines are for people who debug the profiler.
  std::map<std::string, std::string> result = {
      {"KINETO_USE_DAEMON", "1"},
      {"KINETO_IPC_SOCKET_DIR", folder_.string()},
      {"KINETO_CONFIG", (folder_ / "kineto.conf").string()}};
  // g++ 12 sees a false overlap in a literal (-Wrestrict)
  if (std::getenv("KINETO_LOG_LEVEL") == nullptr)
    result.emplace("KINETO_LOG_LEVEL", std::string(1, '5'));
  return result;
}

}  // namespace lockstep
