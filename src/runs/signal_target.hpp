// A process that a signal is to be sent to: held on to, so that its number cannot come to mean
// another.
#pragma once

#include "lockstep/record.hpp"
#include "lockstep/result.hpp"

namespace lockstep {

class SignalTarget {
 public:
  // One of these processes, or the launcher that is their parent; an error where it is gone, or is
  // not what was shown.
  static Result<SignalTarget> take_hold(int pid, const ProcessTick& shown);
  SignalTarget(SignalTarget&& other) noexcept;
  SignalTarget& operator=(SignalTarget&&) = delete;
  ~SignalTarget();

  int pid() const { return pid_; }
  Status send(int signal) const;

 private:
  SignalTarget(int pid, int descriptor) : pid_(pid), descriptor_(descriptor) {}

  int pid_;
  int descriptor_;  // a pidfd; -1: the kernel has none
};

}  // namespace lockstep
