// Copies lines of the ranks' log files to the console: who wrote it before each line, the time
// where wanted, one line where several ranks write the same, and only whole lines, so that ranks do
// not write into each other's.
#pragma once

#include <chrono>
#include <cstdio>
#include <deque>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "launch/arguments/launch_settings.hpp"
#include "launch/logs/log_folder.hpp"
#include "launch/ranks/rank_environment.hpp"

namespace lockstep {

// What stands before a teed line: "[default0]:", or the user's template with ${role_name}, ${rank}
// and ${local_rank}.
std::string line_prefix(const std::string& role, const std::string& line_template, int rank,
                        int local_rank);

class ConsoleLines {
 public:
  ConsoleLines(const LaunchSettings& settings, const GroupPlace& place, const LogFolder& folder,
               const std::string& line_template);
  ~ConsoleLines();
  ConsoleLines(const ConsoleLines&) = delete;
  ConsoleLines& operator=(const ConsoleLines&) = delete;

  // Prints what is new again and again; once `ended` can be read, all that is left and the last
  // lines that have no newline.
  void copy_until(int ended);

 private:
  struct File {
    int local_rank = 0;
    bool is_stderr = false;
    std::string path;
    std::string prefix;
    int descriptor = -1;
    std::string begun;          // a line whose end has not come yet
    bool after_return = false;  // a newline right after a carriage return belongs to it
  };
  struct Line {
    std::string text;
    bool is_stderr = false;
    std::vector<const File*> writers;
    std::chrono::nanoseconds first{};
  };
  void read_file(File& file);
  void take_lines(File& file, std::string_view block);
  void take_line(const File& file, std::string text);
  void print(const Line& line);
  void print_due(bool all);

  const bool times_;
  const bool fold_;
  const std::chrono::nanoseconds look_every_;
  std::vector<File> files_;
  std::size_t ranks_shown_ = 0;
  std::deque<Line> waiting_;  // in the order in which they came: a rank's own order never changes
  std::vector<std::string> filters_[2];
  std::ofstream filtered_[2];
};

}  // namespace lockstep
