// Python stacks of ranks, by py-spy where it is installed: from outside, without stopping them.
//
// A thread of its own has py-spy sample one process after the other for a second each, within a
// budget.
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

struct StackAt {
  double t_ms = 0;                // since py-spy began
  std::vector<CodeFrame> frames;  // innermost first
  int seen = 1;                   // samples in a row
};

// The main thread's samples from what `py-spy record --format chrometrace --threads` prints.
// Nothing: it has none, or the text is no such trace.
std::optional<std::vector<StackAt>> parse_window(std::string_view text, int pid,
                                                 double samples_a_second);

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
    StackSample sample;
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
