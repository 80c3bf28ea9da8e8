// Which rank failed first, why, and what it said: read from its end, its error file and its log.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "launch/logs/log_folder.hpp"

namespace lockstep {

// How a rank ended.
struct RankEnd {
  int rank = 0;
  int local_rank = 0;
  std::size_t index = 0;  // among the ranks that this launcher started
  int pid = 0;
  int wait_status = 0;
  std::chrono::nanoseconds started{};  // monotonic
  std::chrono::nanoseconds ended{};
  bool asked_to_end = false;  // it was still there when the launcher stopped the job

  bool failed() const { return wait_status != 0; }
  std::optional<int> signal() const;
  int exit_code() const;  // as a shell says it: 128+n for a signal
};

// What error.json says, in both forms that torch's handler reads.
struct ErrorFile {
  std::string message;    // "RuntimeError: boom"
  std::string callstack;  // Python's own text; may be empty
};
std::optional<ErrorFile> parse_error_file(const std::string& text);
// The same with the exit code put in, as torchrun hands a child's file on to its own parent;
// nothing: not to be read.
std::optional<std::string> with_error_code(const std::string& text, int code);

struct Failure {
  RankEnd end;
  std::optional<ErrorFile> error;
  std::string error_path;
  std::string log_path;  // of its stderr; empty: the stream was the console
  std::vector<std::string> last_lines;
  std::string place;        // train.py:12, where a traceback says so
  std::string kernel_says;  // the OOM killer, an Xid

  // What two attempts are compared by: the same error at the same place. Empty: the place is not
  // known.
  std::string signature() const;
};

// The first to fail among those that did not fail because they were asked to end. An error file is
// written when the exception is caught, well before a Python process is gone: its time counts where
// it is earlier.
std::optional<Failure> first_failure(const std::vector<RankEnd>& ends,
                                     const std::vector<RankFiles>& files);

// The innermost "File "x.py", line 12" of a Python traceback, and the line with the error's name.
std::string place_in_traceback(const std::string& text);
std::string error_in_traceback(const std::vector<std::string>& lines);

// For the screen: what happened, why, and the next step.
struct FailureSetting {
  std::string host;
  std::string program;      // what ranks were run by
  bool files_stay = false;  // log and error file are still there when the job is over
};
std::string failure_text(const Failure& failure, const std::vector<RankEnd>& ends,
                         const FailureSetting& setting);

}  // namespace lockstep
