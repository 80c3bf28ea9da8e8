// Runs a program to its end and keeps what it printed.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace lockstep::testing {

struct ProgramEnd {
  int code = -1;  // 128+n for a signal
  std::string out;
  std::string err;
};

using Variables = std::map<std::string, std::string>;

// `variables` are added to the environment.
ProgramEnd run_program(const std::vector<std::string>& command, const Variables& variables = {});

// The lockstep of this build.
ProgramEnd run_lockstep(std::vector<std::string> arguments, const Variables& variables = {});

// The same from another folder.
ProgramEnd run_lockstep_in(const std::filesystem::path& folder, std::vector<std::string> arguments);

// A program that runs beside the test until it is destroyed.
class BackgroundProgram {
 public:
  explicit BackgroundProgram(const std::vector<std::string>& command,
                             const Variables& variables = {});
  ~BackgroundProgram();
  BackgroundProgram(const BackgroundProgram&) = delete;
  BackgroundProgram& operator=(const BackgroundProgram&) = delete;
  int pid() const { return pid_; }
  void send(int signal) const;
  int wait();  // its exit code

 private:
  int pid_;
  bool waited_ = false;
};

}  // namespace lockstep::testing
