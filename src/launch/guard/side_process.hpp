// A fork of the launcher that does one thing beside the ranks and goes with the launcher.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>

namespace lockstep {

class SideProcess {
 public:
  SideProcess() = default;
  ~SideProcess();  // ends it at once
  SideProcess(const SideProcess&) = delete;
  SideProcess& operator=(const SideProcess&) = delete;

  // `work` gets a descriptor that becomes readable when finish() is called.
  void start(const std::function<void(int ended)>& work);
  void tell_end();
  bool has_ended();
  // Tells it, lets it end by itself for as long as that, then ends it.
  void finish(std::chrono::nanoseconds patience);

 private:
  pid_t pid_ = -1;
  int until_ = -1;
};

}  // namespace lockstep
