// Reads one GPU (or one MIG slice) through NVML, one kind of call at a time.
//
// Used by the poller's thread alone. A GPU that is lost or asleep keeps its row: its readings then
// say so.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/machine.hpp"
#include "lockstep/record.hpp"
#include "lockstep/sample.hpp"
#include "lockstep/source.hpp"
#include "sources/nvml/byte_total.hpp"
#include "sources/nvml/call_schedule.hpp"
#include "sources/nvml/nvml_api.hpp"
#include "sources/nvml/power_runs.hpp"

namespace lockstep {

class GpuReader {
 public:
  struct Place {
    int index = 0;                // of the row
    unsigned int nvml_index = 0;  // of the physical GPU
    std::string pci_address;      // for sysfs; empty when unknown
    std::optional<MigSlice> mig;
  };

  // `started_unix`: the t_ms = 0 of the recording; earlier power samples are not this run's.
  GpuReader(const NvmlApi& api, Place place, nvmlDevice_t device, nvmlDevice_t parent,
            std::chrono::nanoseconds started_unix);
  // A GPU that sleeps, or that the driver does not open: nothing is known but its place, and why.
  GpuReader(const NvmlApi& api, Place place, std::chrono::nanoseconds started_unix,
            std::string absence);
  ~GpuReader();
  GpuReader(const GpuReader&) = delete;
  GpuReader& operator=(const GpuReader&) = delete;

  const GpuInfo& info() const { return info_; }
  const Place& place() const { return place_; }
  nvmlDevice_t device() const { return device_; }

  // Reads one kind of value into `sample`. What the driver refuses is marked in the sample.
  void read(CallKind kind, GpuSample& sample);
  // The processes on this GPU; nothing when the driver does not tell.
  std::optional<std::vector<std::pair<int, std::optional<std::uint64_t>>>> read_processes();
  // Power samples that did not fit into one equally spaced run (the driver's buffer had a gap).
  std::vector<PowerSamples> take_extra_power_runs();

  bool lost() const { return lost_; }
  // The driver has forgotten that it was started: it was itself started anew, and all handles are
  // void.
  bool session_ended() const { return session_ended_; }
  void try_to_find_again();

  // Why the GPU is asked for nothing at present; empty: it is read.
  const std::string& absence() const { return absence_; }
  void leave_alone(std::string why) { absence_ = std::move(why); }
  void wake(nvmlDevice_t device);

  // Signals that this GPU does not give, with the driver's reason.
  std::vector<NotMeasured> not_measured() const;
  // How long the driver's power buffer reaches back, once known.
  std::optional<std::chrono::nanoseconds> power_buffer_length() const;

 private:
  void learn_static_facts();
  std::optional<double> busy_window_ms() const;

  // The value of a call, or the state its failure means.
  template <class T>
  Reading<T> answer(const char* signal, nvmlReturn_t result, T value);
  template <class T>
  Reading<T> missing_function(const char* signal);

  // A call that gives one unsigned number.
  template <class Call, class... Arguments>
  Reading<double> ask(const char* signal, Call call, Arguments... arguments);

  void read_busy(GpuSample& sample);
  void read_memory(GpuSample& sample);
  void read_limits(GpuSample& sample);
  void read_power_samples(GpuSample& sample);
  void read_gpm(GpuSample& sample);
  void read_byte_counters(GpuSample& sample);
  void mark_all(CallKind kind, GpuSample& sample) const;

  const NvmlApi& api_;
  const Place place_;
  nvmlDevice_t device_ = nullptr;
  nvmlDevice_t parent_ = nullptr;  // of a MIG slice; else the device itself
  GpuInfo info_;
  const std::chrono::nanoseconds started_unix_;
  std::map<std::string, std::string> refusals_;  // signal -> why it is not had
  bool lost_ = false;
  bool session_ended_ = false;
  std::string absence_;

  PowerBufferState power_state_;
  std::vector<nvmlSample_t> power_buffer_;
  std::vector<PowerSamples> extra_power_runs_;
  nvmlGpmSample_t gpm_old_ = nullptr;
  nvmlGpmSample_t gpm_new_ = nullptr;
  std::optional<std::chrono::nanoseconds> gpm_old_at_;
  ByteTotal pcie_rx_;
  ByteTotal pcie_tx_;
  ByteTotal nvlink_rx_;
  ByteTotal nvlink_tx_;
  bool gpm_counts_bytes_ = false;
};

}  // namespace lockstep
