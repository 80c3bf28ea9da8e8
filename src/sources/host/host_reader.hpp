// Tells what the host knows of the processes on the GPUs: command, user, launcher, rank, CPU,
// loader workers.
//
// Reads /proc only, without privileges for one's own processes; for others' it says what it may not
// read. One thread. Facts that do not change are read once a process.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "lockstep/record.hpp"
#include "lockstep/source.hpp"
#include "sources/host/launcher.hpp"
#include "sources/host/proc_files.hpp"
#include "sources/host/python_stacks.hpp"
#include "sources/host/thread_looks.hpp"

namespace lockstep {

enum class PidOrigin : std::uint8_t {
  this_machine,  // pids were read here (virtual GPUs)
  driver,        // the driver's: those of the outermost namespace
};

struct HostOptions {
  std::filesystem::path root = "/";  // tests give a folder with proc/ and etc/ of their own
  PidOrigin pid_origin = PidOrigin::driver;
  double look_budget = 0.01;  // of one core, for looks at the threads of all ranks
  double stack_budget = 0;    // the same for Python stacks; 0: none are taken
};

class HostReader {
 public:
  explicit HostReader(HostOptions options = {});

  // Fills in each process of the tick. `now` is any steadily growing time.
  void describe(ProcessTick& processes, std::chrono::nanoseconds now);
  // Looks at what the threads of each process described before are doing, if it is time to: at
  // moments that no rhythm of a training can meet again and again.
  void look(std::chrono::nanoseconds now);
  std::chrono::nanoseconds next_look() const { return next_look_; }
  // What could not be read, and why, as of the last call.
  std::vector<NotMeasured> not_measured() const;

 private:
  struct Identity {  // a pid alone may come back as another process
    int pid = 0;
    std::uint64_t start_ticks = 0;
    auto operator<=>(const Identity&) const = default;
  };
  struct Facts {
    std::optional<Command> command;
    std::optional<Environment> environment;
    std::optional<std::string> user;
    bool is_ours = false;  // of the user who runs lockstep
    std::optional<std::vector<std::string>> libraries;
    std::chrono::nanoseconds libraries_read{};
    std::uint64_t last_cpu_ticks = 0;
    std::optional<std::uint64_t> last_run_delay;  // ns
    std::chrono::nanoseconds last_cpu_read{};
    bool cpu_read = false;
    std::optional<double> cpu;
    std::optional<double> cpu_wait;
    std::vector<int> workers;
    std::vector<HostLook> looks;
  };
  struct Relative {
    int parent_pid = 0;
    std::uint64_t start_ticks = 0;
    std::string name;
  };

  std::optional<std::string> read(int pid, const char* file, std::size_t limit = 1U << 20U) const;
  std::optional<Command> command_of(int pid) const;
  std::optional<int> local_pid(int driver_pid);
  bool holds_nvidia_device(int pid) const;
  void scan_tree(const ProcessTick& processes, std::chrono::nanoseconds now);
  Facts& facts_of(int pid, const ProcStat& stat, std::chrono::nanoseconds now);
  void describe_one(ProcessSample& process, int pid, std::chrono::nanoseconds now);
  std::optional<std::string> launcher_of(int pid) const;
  void find_spawned_ranks(ProcessTick& processes);
  std::vector<int> loader_workers_of(int pid, const std::optional<Command>& command) const;
  void add_stacks(ProcessTick& processes, std::chrono::nanoseconds now);
  void count_loader_workers(ProcessSample& process, int pid, Facts& facts);

  const HostOptions options_;
  const std::filesystem::path proc_;
  const double ticks_per_second_;
  const std::map<unsigned int, std::string> users_;
  const bool in_pid_namespace_;
  ThreadLooks threads_;
  std::chrono::nanoseconds next_look_{};
  std::chrono::nanoseconds clock_offset_{};  // of the readings' clock to the monotonic one
  std::unique_ptr<PythonStacks> stacks_;     // null: not asked for, or no py-spy was found
  bool looked_for_py_spy_ = false;
  std::minstd_rand chance_;
  std::map<Identity, Facts> facts_;
  std::map<int, Relative> tree_;
  std::multimap<int, int> children_;
  std::chrono::nanoseconds new_process_at_{};
  std::optional<std::chrono::nanoseconds> tree_read_;
  std::set<int> on_gpus_;
  std::map<std::string, std::set<int>> unreadable_;  // reason -> pids, of the last call
};

}  // namespace lockstep
