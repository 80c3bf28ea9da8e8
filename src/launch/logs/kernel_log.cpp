#include "launch/logs/kernel_log.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/file.hpp"
#include "base/text.hpp"

namespace lockstep {
namespace {

// Processes that the OOM killer ended: of this container where it counts its own, else of the
// machine.
long long oom_kills() {
  for (const char* path : {"/sys/fs/cgroup/memory.events", "/proc/vmstat"}) {
    const auto text = read_small_file(path, 65536);
    if (!text) continue;
    for (const std::string_view line : split(*text, '\n'))
      if (line.starts_with("oom_kill ")) return parse_integer(trim(line.substr(9))).value_or(0);
  }
  return 0;
}

}  // namespace

KernelLog::KernelLog()
    : file_(::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC)), kills_before_(oom_kills()) {
  if (file_ >= 0) ::lseek(file_, 0, SEEK_END);
}

KernelLog::~KernelLog() {
  if (file_ >= 0) ::close(file_);
}

std::string KernelLog::about(const RankEnd& end) {
  const int pid = end.pid;
  const bool killed = end.signal() == SIGKILL;
  char record[8192];
  std::string found;
  while (file_ >= 0) {
    const ssize_t got = ::read(file_, record, sizeof record);
    // records were written over while nobody read: go on with the oldest
    if (got < 0 && errno == EPIPE) continue;
    if (got <= 0) break;
    if (const std::string words =
            kernel_line_about(std::string(record, static_cast<std::size_t>(got)), pid);
        !words.empty())
      found = words;
  }
  if (!found.empty()) return found;
  if (killed && oom_kills() > kills_before_)
    return "the kernel's OOM killer was at work meanwhile: the machine or the container ran out of "
           "memory";
  return {};
}

std::string kernel_line_about(const std::string& line, int pid) {
  if (line.find(fmt::format("Killed process {} ", pid)) != std::string::npos)
    return "the kernel's OOM killer ended it: the machine or the container ran out of memory";
  const auto xid = line.find("NVRM: Xid");
  if (xid == std::string::npos) return {};
  const auto end = line.find('\n', xid);
  return fmt::format("the driver reported '{}': lockstep explain H604",
                     printable(line.substr(xid, std::min<std::size_t>(end - xid, 160))));
}

}  // namespace lockstep
