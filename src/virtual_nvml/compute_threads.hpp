// Finds threads named vgpu<i> and the CPU time they used: the work of virtual GPU i.
//
// One thread at a time (the owner locks). Takes the root of /proc so that tests can give it their
// own.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

using Nanoseconds = std::chrono::nanoseconds;

// What a process said about itself in its vgpu-<pid>.json.
struct Registration {
  struct Gpu {
    int index = 0;
    std::optional<std::uint64_t> memory_bytes;
    std::optional<int> tid;
    bool waiting = false;
    std::optional<double> hot_clock;  // too hot: this share of its clock is left
  };
  int pid = 0;
  std::vector<Gpu> gpus;
};
std::optional<Registration> parse_registration(const std::string& json);

// The work on one virtual GPU, read at one moment.
struct GpuWork {
  Nanoseconds run_time{};  // of all its threads since they were first seen; never falls
  // how often its threads were put on a CPU: unchanged, they were never taken off
  std::uint64_t slices = 0;
  bool waiting = false;             // a registered thread says it spins in a collective
  std::optional<double> hot_clock;  // a registered thread says that its GPU is too hot
};

class ComputeThreads {
 public:
  ComputeThreads(std::size_t gpu_count, std::filesystem::path proc_root,
                 std::filesystem::path registrations, std::optional<std::string> scope);
  ~ComputeThreads();
  ComputeThreads(const ComputeThreads&) = delete;
  ComputeThreads& operator=(const ComputeThreads&) = delete;

  // Looks for new threads and forgets ended ones once a second, and reads registrations again every
  // few milliseconds; in between it costs nothing.
  void refresh(Nanoseconds now);
  // Whether any thread or registration speaks of the GPU. One without costs nothing to read.
  bool in_use(std::size_t gpu) const;
  GpuWork work(std::size_t gpu);
  // How long the GPU's threads ran in the `window` before now, by the mean since each was started:
  // the kernel keeps no finer record of the past.
  Nanoseconds past_run_time(std::size_t gpu, Nanoseconds window) const;
  // Processes on a GPU and the memory each registered there, else its resident memory.
  std::vector<std::pair<int, std::uint64_t>> processes(std::size_t gpu);

 private:
  struct Thread {
    int pid = 0;
    std::size_t gpu = 0;
    int schedstat = -1;  // kept open: one pread a reading
    Nanoseconds last_run_time{};
    bool registered = false;
  };
  struct SchedStat {
    Nanoseconds run_time{};
    std::uint64_t slices = 0;
  };
  struct KnownRegistration {
    Registration content;
    std::uint64_t inode = 0;
    std::int64_t changed_ns = 0;
  };

  bool in_scope(int pid);
  void scan_registrations();
  void reread_registrations();
  void scan_threads();
  std::optional<std::size_t> gpu_named_by(int pid, int tid) const;
  void track(int pid, int tid, std::size_t gpu, bool registered);
  static std::optional<SchedStat> schedstat(const Thread& thread);
  std::string thread_stat(int pid, int tid) const;
  bool is_somebody_elses(int pid, const std::filesystem::path& registration) const;

  const std::filesystem::path proc_;
  const std::filesystem::path registration_folder_;
  const std::optional<std::string> scope_;
  std::map<int, Thread> threads_;  // by thread id
  std::map<int, KnownRegistration> registrations_;
  std::map<int, bool> scope_of_;    // by pid; read once
  std::map<int, bool> is_kernel_;   // by pid; kernel threads never compute for us
  std::vector<Nanoseconds> total_;  // run time a GPU
  std::optional<Nanoseconds> last_scan_;
  Nanoseconds last_reread_{};
};

}  // namespace lockstep
