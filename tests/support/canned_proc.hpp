// A /proc (and /etc/passwd) made by a test, for readers that take a root folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "support/temporary_folder.hpp"

namespace lockstep::testing {

struct CannedProcess {
  int pid = 0;
  int parent = 1;
  std::vector<std::string> command;
  std::vector<std::string> environment;  // "NAME=value"
  std::string name = "python";
  char state = 'S';
  unsigned long long cpu_ticks = 0;
  unsigned long long start_ticks = 100;
  unsigned int user_id = 1000;
  bool environment_readable = true;
  std::string maps;
  unsigned long long read_bytes = 0;
  unsigned long long write_bytes = 0;
  std::vector<int> namespace_pids;
  std::vector<std::string> open_files;
};

class CannedProc {
 public:
  CannedProc();
  void put(const CannedProcess& process) const;
  void remove(int pid) const;
  void enter_container() const;  // a PID namespace that is not the machine's first
  const std::filesystem::path& root() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

}  // namespace lockstep::testing
