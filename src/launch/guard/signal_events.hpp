// Signals as events of a descriptor: those that end the job, and those that are handed on to the
// ranks.
#pragma once

#include <string>

namespace lockstep {

class SignalEvents {
 public:
  // The names of those that end the job. They are blocked in this process from now on, and so in
  // its children until they exec.
  explicit SignalEvents(const std::string& ending_names);
  ~SignalEvents();
  SignalEvents(const SignalEvents&) = delete;
  SignalEvents& operator=(const SignalEvents&) = delete;

  int descriptor() const { return descriptor_; }
  // The next one that came, or 0.
  int next();
  // The first that asked for the end, or 0.
  int ended_by() const { return ended_by_; }
  // Whether the job is to end; for waits in which there are no ranks to hand anything on to.
  bool is_to_end() {
    while (next() != 0) {
    }
    return ended_by_ != 0;
  }
  // Waits until a descriptor can be read (-1: none), an end is asked for, or the time is over.
  void wait(int descriptor, int milliseconds) const;

  // Schedulers send these so that a job may save itself; torchrun dies of them, and leaves its
  // ranks behind.
  static bool is_handed_on(int signal);

 private:
  int descriptor_ = -1;
  int ended_by_ = 0;
};

}  // namespace lockstep
