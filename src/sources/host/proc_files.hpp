// Parsers of the files under /proc/PID, from their text.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// /proc/PID/stat
struct ProcStat {
  std::string name;  // the main thread's
  char state = '?';
  int parent_pid = 0;
  std::uint64_t cpu_ticks = 0;  // user and system, of all threads
  std::uint64_t start_ticks = 0;
};
std::optional<ProcStat> parse_stat(std::string_view text);

// /proc/PID/status: the owner, and the process's pids from the outermost visible namespace inwards.
struct ProcStatus {
  std::optional<unsigned int> user_id;
  std::vector<int> namespace_pids;
};
ProcStatus parse_status(std::string_view text);

// /proc/PID/cmdline
std::vector<std::string> parse_command(std::string_view text);

// /proc/PID/environ: the listed names of docs/formats/recording.md and no others.
std::map<std::string, std::string> parse_environment(std::string_view text);

// /proc/PID/io
struct ProcIo {
  std::uint64_t read_bytes = 0;
  std::uint64_t write_bytes = 0;
};
std::optional<ProcIo> parse_io(std::string_view text);

// /proc/PID/schedstat, of the main thread: how long it waited for a core, in ns.
std::optional<std::uint64_t> parse_run_delay(std::string_view text);

// /proc/PID/maps: the libraries that tell the stack, each once.
std::vector<std::string> parse_libraries(std::string_view text);

// /etc/passwd
std::map<unsigned int, std::string> parse_passwd(std::string_view text);

}  // namespace lockstep
