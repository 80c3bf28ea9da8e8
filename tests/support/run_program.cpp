#include "support/run_program.hpp"
#include "support/paths.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <stdexcept>

namespace lockstep::testing {
namespace {

[[noreturn]] void become(const std::vector<std::string>& command, const Variables& variables) {
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  ::_exit(127);
}

int shell_code(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

ProgramEnd run_program(const std::vector<std::string>& command, const Variables& variables) {
  int out[2];
  int err[2];
  if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0)
    throw std::runtime_error("no pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::dup2(nothing, STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(err[1], STDERR_FILENO);
    become(command, variables);
  }
  ::close(out[1]);
  ::close(err[1]);
  ProgramEnd end;
  std::array<pollfd, 2> streams = {{{out[0], POLLIN, 0}, {err[0], POLLIN, 0}}};
  std::array<std::string*, 2> texts = {&end.out, &end.err};
  int open = 2;
  while (open > 0) {
    ::poll(streams.data(), streams.size(), -1);
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (streams[i].fd < 0 || streams[i].revents == 0) continue;
      std::array<char, 65536> block;
      const ssize_t got = ::read(streams[i].fd, block.data(), block.size());
      if (got > 0) {
        texts[i]->append(block.data(), static_cast<std::size_t>(got));
      } else {
        ::close(streams[i].fd);
        streams[i].fd = -1;
        --open;
      }
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  end.code = shell_code(status);
  return end;
}

ProgramEnd run_lockstep(std::vector<std::string> arguments, const Variables& variables) {
  arguments.insert(arguments.begin(), lockstep_program());
  // No user's configuration reaches a test.
  Variables all = {{"XDG_CONFIG_HOME", "/nonexistent"}};
  for (const auto& [name, value] : variables) all[name] = value;
  return run_program(arguments, all);
}

ProgramEnd run_lockstep_in(const std::filesystem::path& folder,
                           std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"env", "-C", folder.string(), lockstep_program()});
  return run_program(arguments, {{"XDG_CONFIG_HOME", "/nonexistent"}});
}

BackgroundProgram::BackgroundProgram(const std::vector<std::string>& command,
                                     const Variables& variables)
    : pid_(::fork()) {
  if (pid_ == 0) become(command, variables);
}

BackgroundProgram::~BackgroundProgram() {
  if (waited_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void BackgroundProgram::send(int signal) const { ::kill(pid_, signal); }

int BackgroundProgram::wait() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  waited_ = true;
  return shell_code(status);
}

}  // namespace lockstep::testing
