// Answers "nothing to do" to the profilers of processes that lockstep started.
//
// Without any answer a process that has KINETO_USE_DAEMON tries again and again, and its end waits
// for that: 9 s for an `import torch` (torch 2.11). `lockstep trace` takes the place when it wants
// to trace.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>

namespace lockstep {

class RestingDaemon {
 public:
  RestingDaemon() = default;  // does not rest
  // In a folder of its own in the runtime folder. Where that fails there is simply no tracing on
  // demand.
  static RestingDaemon start();
  RestingDaemon(RestingDaemon&& other) noexcept;
  RestingDaemon& operator=(RestingDaemon&& other) noexcept;
  ~RestingDaemon();

  // What the processes need to know; empty where it does not rest, or where the user has set up a
  // daemon himself.
  std::map<std::string, std::string> variables() const;

 private:
  void stop();

  std::filesystem::path folder_;
  pid_t pid_ = -1;  // a fork: the launcher has one thread, and keeps it
};

}  // namespace lockstep
