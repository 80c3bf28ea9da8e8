// Python stacks of ranks, by py-spy where it is installed: from outside, without stopping them.
//
// A dump costs some 10 ms of a core and says where the process was at its end, so a thread of its
// own makes them, of one process after the other, within a budget.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lockstep/host_look.hpp"

namespace lockstep {

// The main thread's frames, innermost first, from `py-spy dump --json`. Nothing: it has none, or
// the text is no such dump.
std::optional<std::vector<CodeFrame>> parse_dump(std::string_view text, int pid);

// What a line of Python calls, of the calls that say much. Empty: none of them.
std::string_view telling_call(std::string_view line);

// py-spy in $PATH, else beside one of these interpreters, as in a virtual environment. Whoever owns
// an interpreter could have put any program there: only one's own are to be given.
std::optional<std::filesystem::path> find_py_spy(const std::vector<std::string>& own_interpreters);

class PythonStacks {
 public:
  struct Taken {
    int pid = 0;
    std::chrono::nanoseconds at{};  // of the monotonic clock
    StackSample sample;             // no frames: it could not be read at that moment
  };

  // `budget`: share of one core.
  PythonStacks(std::filesystem::path py_spy, double budget);
  ~PythonStacks();
  PythonStacks(const PythonStacks&) = delete;
  PythonStacks& operator=(const PythonStacks&) = delete;

  void follow(std::vector<int> pids);
  std::vector<Taken> take();  // since the call before
  // Why no stack could be had of any process.
  std::optional<std::string> refusal() const;

 private:
  struct Shared;
  class Work;

  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace lockstep
