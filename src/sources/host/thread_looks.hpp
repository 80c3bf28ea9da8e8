// What a thread of another process is doing, from /proc: its system call and the files that it
// names; without leave to see those, the place in the kernel where it sleeps.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "lockstep/host_look.hpp"

namespace lockstep {

// /proc/PID/task/TID/syscall
struct SystemCall {
  bool running = false;
  std::int64_t number = -1;  // negative: it sleeps outside of any, in a page fault
  std::array<std::uint64_t, 6> arguments = {};
};
std::optional<SystemCall> parse_system_call(std::string_view text);

// What a file of a process is, by the link in its fd folder.
enum class OpenFileKind : std::uint8_t { regular, socket, pipe, gpu, other };
OpenFileKind file_kind_of(std::string_view link);

// By the name of the kernel's function in which it sleeps. Nothing for "0", which says nothing.
std::optional<ThreadDoing> doing_by_wait_channel(std::string_view name);

class ThreadLooks {
 public:
  explicit ThreadLooks(std::filesystem::path proc) : proc_(std::move(proc)) {}

  // Nothing: it is gone, or may not be seen at all.
  std::optional<ThreadDoing> look(int pid, int tid);
  // Whether system calls were refused, so that less is known.
  bool refused() const { return refused_; }

 private:
  std::optional<ThreadDoing> by_system_call(int pid, const SystemCall& call) const;
  std::optional<ThreadDoing> by_state(int pid, int tid) const;
  std::optional<OpenFileKind> kind_of(int pid, std::int64_t descriptor) const;
  ThreadDoing waits_for(int pid, const std::vector<int>& descriptors) const;
  std::vector<int> polled(int pid, const SystemCall& call) const;

  std::filesystem::path proc_;
  bool refused_ = false;
};

}  // namespace lockstep
