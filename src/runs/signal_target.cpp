#include "runs/signal_target.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/file.hpp"
#include "base/redact.hpp"
#include "sources/host/launcher.hpp"
#include "sources/host/proc_files.hpp"

namespace lockstep {
namespace {

// 5.3 and 5.1: newer than some kernels that run training.
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif

// Whether the process of this number is still the one that was on the screen.
bool is_as_shown(int pid, const ProcessTick& shown) {
  const auto text = read_small_file(fmt::format("/proc/{}/cmdline", pid));
  if (!text || text->empty()) return false;
  const std::vector<std::string> command = parse_command(*text);
  for (const ProcessSample& process : shown) {
    if (process.pid == pid) return process.command && *process.command == redact_command(command);
    if (process.parent_pid == pid && process.launcher &&
        launcher_named_by(command) == process.launcher)
      return true;
  }
  return false;
}

}  // namespace

Result<SignalTarget> SignalTarget::take_hold(int pid, const ProcessTick& shown) {
  const std::string next = "look at the list again";
  if (pid <= 1 || pid == ::getpid())
    return Error{fmt::format("{} is no process to send a signal to", pid), next};
  // Held first and looked at then: what is looked at is what is held.
  const int descriptor = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  SignalTarget target(pid, descriptor);
  if (descriptor < 0 && errno == ESRCH)
    return Error{fmt::format("process {} has ended", pid), next};
  if (!is_as_shown(pid, shown))
    return Error{fmt::format("process {} is not what was shown: it ended, or cannot be read", pid),
                 next};
  return target;
}

SignalTarget::SignalTarget(SignalTarget&& other) noexcept
    : pid_(other.pid_), descriptor_(std::exchange(other.descriptor_, -1)) {}

SignalTarget::~SignalTarget() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status SignalTarget::send(int signal) const {
  const long sent = descriptor_ >= 0
                        ? ::syscall(SYS_pidfd_send_signal, descriptor_, signal, nullptr, 0)
                        : ::kill(pid_, signal);
  if (sent == 0) return Done{};
  if (errno == ESRCH)
    return Error{fmt::format("process {} has ended", pid_), "look at the list again"};
  return Error{fmt::format("process {}: {}", pid_, std::strerror(errno)),
               "it may be another user's: use their account, or sudo kill"};
}

}  // namespace lockstep
