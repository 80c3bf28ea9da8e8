#include "base/subprocess.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/text.hpp"

namespace lockstep {
namespace {

void pause_briefly() {
  const timespec ten_milliseconds{0, 10'000'000};
  ::nanosleep(&ten_milliseconds, nullptr);
}

// In the child between fork and exec: only async-signal-safe calls.
[[noreturn]] void become(char* const* arguments, char* const* environment, ChildOutput output,
                         int file, int report_to, pid_t parent) {
  if (output == ChildOutput::to_stderr) ::dup2(STDERR_FILENO, STDOUT_FILENO);
  if (output == ChildOutput::to_file) ::dup2(file, STDOUT_FILENO);
  ::signal(SIGPIPE, SIG_DFL);
  // Where Yama lets only ancestors look into a process: also what we start to look. Its own
  // children do not inherit it.
  if (::getppid() == parent) ::prctl(PR_SET_PTRACER, static_cast<unsigned long>(parent), 0, 0, 0);
  if (environment != nullptr)
    ::execvpe(arguments[0], arguments, environment);
  else
    ::execvp(arguments[0], arguments);
  const int problem = errno;
  [[maybe_unused]] const ssize_t written = ::write(report_to, &problem, sizeof problem);
  ::_exit(127);
}

}  // namespace

Result<Subprocess> Subprocess::start(const std::vector<std::string>& command, ChildOutput output,
                                     int file,
                                     const std::optional<std::vector<std::string>>& environment) {
  if (command.empty())
    return usage_error("no command after --", "write the command after it: -- python train.py");

  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::vector<char*> entries;
  if (environment)
    for (const std::string& entry : *environment)
      entries.push_back(const_cast<char*>(entry.c_str()));
  entries.push_back(nullptr);

  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0)
    return Error{fmt::format("cannot start a process: {}", std::strerror(errno)),
                 "check ulimit -n"};
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    ::close(report[0]);
    ::close(report[1]);
    return Error{fmt::format("cannot start a process: {}", std::strerror(errno)),
                 "check ulimit -u"};
  }
  if (child == 0)
    become(arguments.data(), environment ? entries.data() : nullptr, output, file, report[1],
           parent);

  ::close(report[1]);
  int problem = 0;
  ssize_t got = 0;
  do {
    got = ::read(report[0], &problem, sizeof problem);
  } while (got < 0 && errno == EINTR);
  ::close(report[0]);
  if (got == static_cast<ssize_t>(sizeof problem)) {  // exec failed
    ::waitpid(child, nullptr, 0);
    return usage_error(
        fmt::format("cannot run {}: {}", printable(command[0]), std::strerror(problem)),
        "check the command's name and PATH, and that the file is executable");
  }
  return Subprocess(child);
}

Subprocess::Subprocess(Subprocess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), end_(std::exchange(other.end_, std::nullopt)) {}

Subprocess::~Subprocess() {
  if (pid_ >= 0) end(std::chrono::seconds(2));
}

ChildEnd Subprocess::end(std::chrono::milliseconds patience) {
  if (!poll()) send(SIGTERM);
  for (const auto until = std::chrono::steady_clock::now() + patience;
       !poll() && std::chrono::steady_clock::now() < until;)
    pause_briefly();
  if (!poll()) send(SIGKILL);
  return wait();
}

std::optional<ChildEnd> Subprocess::poll() {
  if (end_) return end_;
  int status = 0;
  const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
  if (ended == 0) return std::nullopt;
  if (ended == pid_ && WIFSIGNALED(status))
    end_ = ChildEnd{128 + WTERMSIG(status), WTERMSIG(status)};
  else
    end_ = ChildEnd{ended == pid_ && WIFEXITED(status) ? WEXITSTATUS(status) : 127, std::nullopt};
  return end_;
}

ChildEnd Subprocess::wait() {
  while (!poll()) pause_briefly();
  return *end_;
}

void Subprocess::send(int signal) const {
  if (pid_ > 0 && !end_) ::kill(pid_, signal);
}

}  // namespace lockstep
