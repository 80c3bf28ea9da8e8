// The driver as found at the start: loaded, initialised, its GPUs opened; shut down at the end.
//
// Used by the poller's thread alone.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lockstep/machine.hpp"
#include "lockstep/record.hpp"
#include "lockstep/result.hpp"
#include "sources/nvml/gpu_reader.hpp"
#include "sources/nvml/nvml_api.hpp"

namespace lockstep {

struct SessionOptions {
  std::string library;                   // empty: the driver's own
  std::filesystem::path sysfs = "/sys";  // tests give their own
  std::vector<int> gpus;                 // empty: all
  // The clock of an earlier session that this one goes on from; nothing: it starts now.
  struct Clock {
    std::chrono::nanoseconds started_monotonic{};
    std::chrono::nanoseconds started_unix{};
  };
  std::optional<Clock> clock;
};

class NvmlSession {
 public:
  static Result<std::unique_ptr<NvmlSession>> open(const SessionOptions& options);
  ~NvmlSession();
  NvmlSession(const NvmlSession&) = delete;
  NvmlSession& operator=(const NvmlSession&) = delete;

  Machine machine() const;
  // One a row: physical GPUs first, then MIG slices.
  const std::vector<std::unique_ptr<GpuReader>>& readers() const { return readers_; }
  bool has_slices(const GpuReader& reader) const;
  std::chrono::nanoseconds started() const { return started_monotonic_; }
  SessionOptions::Clock clock() const { return {started_monotonic_, started_unix_}; }

  // Leaves a GPU alone that the kernel has suspended, and takes it up again when it woke by itself:
  // what changed, if anything did.
  std::optional<Event> look_after(GpuReader& reader);
  // The next Xid that happened; never waits.
  std::optional<Event> next_xid();

 private:
  NvmlSession(const NvmlApi& api, SessionOptions options)
      : api_(api), options_(std::move(options)) {}
  Status initialise(const std::set<std::string>& suspended);
  void add_gpus(const std::vector<std::string>& addresses, const std::set<std::string>& suspended,
                unsigned int count);
  void add_slices(const GpuReader& parent);
  void register_events();
  ProcessCoverage process_coverage() const;
  std::optional<double> power_window_ms() const;
  std::optional<std::vector<std::pair<int, int>>> peers() const;

  const NvmlApi api_;
  const SessionOptions options_;
  bool initialised_ = false;
  std::vector<std::unique_ptr<GpuReader>> readers_;
  int rows_ = 0;  // of the whole machine, slices included, whichever were asked for
  std::set<const GpuReader*> may_sleep_;
  nvmlEventSet_t events_ = nullptr;
  std::chrono::nanoseconds started_monotonic_{};
  std::chrono::nanoseconds started_unix_{};
};

}  // namespace lockstep
