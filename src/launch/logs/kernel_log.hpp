// What the kernel had to do with a rank's end: the OOM killer, a GPU's Xid. Read where it is
// allowed.
#pragma once

#include <string>

#include "launch/logs/failure.hpp"

namespace lockstep {

class KernelLog {
 public:
  KernelLog();  // from now on
  ~KernelLog();
  KernelLog(const KernelLog&) = delete;
  KernelLog& operator=(const KernelLog&) = delete;

  // What it says about the end of this rank, in words; empty: nothing.
  std::string about(const RankEnd& end);

 private:
  int file_ = -1;  // -1: not ours to read
  long long kills_before_ = 0;
};

// The words for one line of the kernel's log; empty: none of ours.
std::string kernel_line_about(const std::string& line, int pid);

}  // namespace lockstep
