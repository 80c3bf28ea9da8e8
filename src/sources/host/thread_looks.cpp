#include "sources/host/thread_looks.hpp"

#include <poll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>

#include "base/file.hpp"
#include "base/text.hpp"
#include "sources/host/proc_files.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kMostPolled = 16;  // files: of a longer list the first ones tell

std::optional<std::uint64_t> parse_hexadecimal(std::string_view text) {
  if (!text.starts_with("0x")) return std::nullopt;
  text.remove_prefix(2);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_any(std::int64_t number, std::initializer_list<long> calls) {
  return std::ranges::find(calls, number) != calls.end();
}

// Architectures differ in which of these they have: aarch64 has no poll, select and epoll_wait.
constexpr long kNone = -2;
#ifdef SYS_poll
constexpr long kPoll = SYS_poll;
#else
constexpr long kPoll = kNone;
#endif
#ifdef SYS_select
constexpr long kSelect = SYS_select;
#else
constexpr long kSelect = kNone;
#endif
#ifdef SYS_epoll_wait
constexpr long kEpollWait = SYS_epoll_wait;
#else
constexpr long kEpollWait = kNone;
#endif
#ifdef SYS_futex_waitv
constexpr long kFutexWaitv = SYS_futex_waitv;
#else
constexpr long kFutexWaitv = 449;
#endif

template <class T>
std::vector<T> read_memory(int pid, std::uint64_t address, std::size_t count) {
  std::vector<T> values(count);
  iovec here{values.data(), values.size() * sizeof(T)};
  iovec there{reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)), here.iov_len};
  const auto got = ::process_vm_readv(pid, &here, 1, &there, 1, 0);
  values.resize(got > 0 ? static_cast<std::size_t>(got) / sizeof(T) : 0);
  return values;
}

}  // namespace

std::optional<SystemCall> parse_system_call(std::string_view text) {
  text = trim(text);
  SystemCall call;
  if (text == "running") {
    call.running = true;
    return call;
  }
  const auto words = split(text, ' ');
  const auto number = words.empty() ? std::nullopt : parse_integer(words.front());
  if (!number) return std::nullopt;
  call.number = *number;
  for (std::size_t i = 0; i < call.arguments.size() && i + 1 < words.size(); ++i) {
    const auto argument = parse_hexadecimal(words[i + 1]);
    if (!argument) return std::nullopt;
    call.arguments[i] = *argument;
  }
  return call;
}

OpenFileKind file_kind_of(std::string_view link) {
  if (link.starts_with("socket:")) return OpenFileKind::socket;
  if (link.starts_with("pipe:")) return OpenFileKind::pipe;
  if (link.starts_with("/dev/nvidia")) return OpenFileKind::gpu;
  // a file in shared memory is no disk's, a terminal is no file
  if (link.starts_with("/dev/") || link.starts_with("/proc/") || link.starts_with("/memfd:") ||
      link.starts_with("/sys/"))
    return OpenFileKind::other;
  return link.starts_with("/") ? OpenFileKind::regular : OpenFileKind::other;
}

std::optional<ThreadDoing> doing_by_wait_channel(std::string_view name) {
  struct Sign {
    std::string_view part;
    ThreadDoing doing;
  };
  // Names as of Linux 5.4 to 6.18.
  constexpr std::array<Sign, 23> kSigns = {{{"nanosleep", ThreadDoing::sleep},
                                            {"futex", ThreadDoing::lock},
                                            {"pipe_", ThreadDoing::pipe},
                                            {"sk_wait", ThreadDoing::socket},
                                            {"unix_stream", ThreadDoing::socket},
                                            {"tcp_", ThreadDoing::socket},
                                            {"wait_woken", ThreadDoing::socket},
                                            {"skb_wait", ThreadDoing::socket},
                                            {"do_wait", ThreadDoing::child},
                                            {"kernel_wait", ThreadDoing::child},
                                            {"nvidia", ThreadDoing::gpu},
                                            {"os_acquire", ThreadDoing::gpu},
                                            {"balance_dirty", ThreadDoing::write_file},
                                            {"jbd2", ThreadDoing::write_file},
                                            {"wait_on_page_writeback", ThreadDoing::write_file},
                                            {"folio_wait_writeback", ThreadDoing::write_file},
                                            {"xlog_", ThreadDoing::write_file},
                                            {"sync_file", ThreadDoing::write_file},
                                            {"folio_wait_bit", ThreadDoing::read_file},
                                            {"wait_on_page_bit", ThreadDoing::read_file},
                                            {"filemap_", ThreadDoing::read_file},
                                            {"nfs_", ThreadDoing::read_file},
                                            {"fuse_", ThreadDoing::read_file}}};
  name = trim(name);
  if (name.empty() || name == "0") return std::nullopt;
  for (const Sign& sign : kSigns)
    if (name.find(sign.part) != std::string_view::npos) return sign.doing;
  // It polls, nobody says what: a queue, a socket or nothing at all.
  const bool polls =
      name.find("poll") != std::string_view::npos || name.find("select") != std::string_view::npos;
  return polls ? std::nullopt : std::optional(ThreadDoing::other);
}

std::optional<ThreadDoing> ThreadLooks::look(int pid, int tid) {
  const auto folder = proc_ / std::to_string(pid) / "task" / std::to_string(tid);
  errno = 0;
  if (const auto text = read_small_file(folder / "syscall", 512)) {
    if (const auto call = parse_system_call(*text))
      // Outside of any call: a page fault of a mapped file, or a thread that somebody stopped.
      return call->running      ? ThreadDoing::run
             : call->number < 0 ? by_state(pid, tid)
                                : by_system_call(pid, *call);
  } else if (errno == EPERM || errno == EACCES) {
    refused_ = true;
  }
  return by_state(pid, tid);
}

// What a reader sees who may not trace the process.
std::optional<ThreadDoing> ThreadLooks::by_state(int pid, int tid) const {
  const auto folder = proc_ / std::to_string(pid) / "task" / std::to_string(tid);
  const auto stat = parse_stat(read_small_file(folder / "stat", 1024).value_or(""));
  if (!stat) return std::nullopt;
  if (stat->state == 'R') return ThreadDoing::run;
  const auto doing = doing_by_wait_channel(read_small_file(folder / "wchan", 128).value_or(""));
  // An uninterruptible sleep is a disk's: mostly a read, for writes go to memory first.
  if (stat->state == 'D' && (!doing || *doing == ThreadDoing::other)) return ThreadDoing::read_file;
  if (stat->state != 'S' && stat->state != 'D')
    return ThreadDoing::other;  // stopped, or at its end
  return doing;
}

std::optional<OpenFileKind> ThreadLooks::kind_of(int pid, std::int64_t descriptor) const {
  if (descriptor < 0) return std::nullopt;
  std::error_code gone;
  const auto link = std::filesystem::read_symlink(
      proc_ / std::to_string(pid) / "fd" / std::to_string(descriptor), gone);
  if (gone) return std::nullopt;
  return file_kind_of(link.native());
}

// Files that a poll waits for. Its list lies in the memory of the process.
std::vector<int> ThreadLooks::polled(int pid, const SystemCall& call) const {
  const auto count = std::min<std::uint64_t>(
      call.arguments[is_any(call.number, {kPoll, SYS_ppoll}) ? 1 : 0], kMostPolled);
  std::vector<int> descriptors;
  if (is_any(call.number, {kPoll, SYS_ppoll})) {
    for (const pollfd& entry : read_memory<pollfd>(pid, call.arguments[0], count))
      descriptors.push_back(entry.fd);
    return descriptors;
  }
  const auto files = static_cast<int>(std::min<std::uint64_t>(call.arguments[0], FD_SETSIZE));
  for (const std::size_t set : {1U, 2U}) {
    if (call.arguments[set] == 0) continue;
    for (const fd_set& bits : read_memory<fd_set>(pid, call.arguments[set], 1))
      for (int file = 0; file < files && descriptors.size() < kMostPolled; ++file)
        if (FD_ISSET(file, &bits)) descriptors.push_back(file);
  }
  return descriptors;
}

// A queue between processes goes before all else: who waits for a worker may watch a socket, too.
ThreadDoing ThreadLooks::waits_for(int pid, const std::vector<int>& descriptors) const {
  ThreadDoing doing = ThreadDoing::other;
  for (const int descriptor : descriptors) {
    const auto kind = kind_of(pid, descriptor);
    if (kind == OpenFileKind::pipe) return ThreadDoing::pipe;
    if (kind == OpenFileKind::gpu) doing = ThreadDoing::gpu;
    if (kind == OpenFileKind::socket && doing == ThreadDoing::other) doing = ThreadDoing::socket;
  }
  return doing;
}

std::optional<ThreadDoing> ThreadLooks::by_system_call(int pid, const SystemCall& call) const {
  const std::int64_t number = call.number;
  const auto descriptor = static_cast<std::int64_t>(static_cast<std::int32_t>(call.arguments[0]));
  if (is_any(number, {SYS_nanosleep, SYS_clock_nanosleep})) return ThreadDoing::sleep;
  if (is_any(number, {SYS_futex, kFutexWaitv})) return ThreadDoing::lock;
  if (is_any(number, {SYS_wait4, SYS_waitid})) return ThreadDoing::child;
  if (is_any(number, {SYS_fsync, SYS_fdatasync, SYS_msync, SYS_sync, SYS_syncfs,
                      SYS_sync_file_range, SYS_renameat, SYS_unlinkat, SYS_ftruncate, SYS_fallocate,
                      SYS_copy_file_range, SYS_sendfile}))
    return ThreadDoing::write_file;
  if (is_any(number, {SYS_openat, SYS_statx, SYS_getdents64, SYS_newfstatat, SYS_faccessat}))
    return ThreadDoing::read_file;  // of a slow file system
  if (is_any(number, {SYS_recvfrom, SYS_recvmsg, SYS_recvmmsg, SYS_sendto, SYS_sendmsg,
                      SYS_sendmmsg, SYS_connect, SYS_accept, SYS_accept4}))
    return ThreadDoing::socket;
  if (is_any(number, {kPoll, SYS_ppoll, kSelect, SYS_pselect6})) {
    const bool lists = is_any(number, {kPoll, SYS_ppoll});
    if (call.arguments[lists ? 1 : 0] == 0) return ThreadDoing::sleep;  // as older Pythons sleep
    return waits_for(pid, polled(pid, call));
  }
  if (is_any(number, {kEpollWait, SYS_epoll_pwait})) return ThreadDoing::socket;  // asyncio, gRPC
  const bool reads = is_any(number, {SYS_read, SYS_pread64, SYS_readv, SYS_preadv});
  const bool writes = is_any(number, {SYS_write, SYS_pwrite64, SYS_writev, SYS_pwritev});
  if (!reads && !writes && number != SYS_ioctl) return ThreadDoing::other;
  const auto kind = kind_of(pid, descriptor);
  if (!kind) return ThreadDoing::other;
  switch (*kind) {
    case OpenFileKind::regular:
      return reads ? ThreadDoing::read_file : writes ? ThreadDoing::write_file : ThreadDoing::other;
    case OpenFileKind::socket: return ThreadDoing::socket;
    case OpenFileKind::pipe: return ThreadDoing::pipe;
    case OpenFileKind::gpu: return ThreadDoing::gpu;
    case OpenFileKind::other: return ThreadDoing::other;
  }
  return ThreadDoing::other;
}

}  // namespace lockstep
