// Virtual GPUs that play a recording in real time, with the faults it scripts.
#pragma once

#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "recording/reader.hpp"
#include "virtual_nvml/virtual_gpus.hpp"

namespace lockstep {

class PlayedRecording : public VirtualGpus {
 public:
  // `start_monotonic_ns`: the moment of t_ms = 0.
  PlayedRecording(RecordingReader reader, std::int64_t start_monotonic_ns);

  const Machine& machine() const override { return machine_; }
  GpuSample sample(std::size_t gpu) override;
  Reading<std::uint64_t> memory_used_bytes(std::size_t gpu) override {
    return sample(gpu).memory_used_bytes;
  }
  std::vector<PidOnGpu> processes(std::size_t gpu) override;
  std::optional<std::vector<TimedSample>> power_samples(std::size_t gpu,
                                                        std::uint64_t since_us) override;
  bool has_gpm(std::size_t gpu) override;
  Fault fault(std::size_t gpu, const char* function) override;
  std::vector<XidEvent> xid_events(std::uint64_t after_serial) override;
  std::optional<std::int64_t> started_ns() const override { return start_monotonic_ns_; }

 private:
  struct Gpu {
    GpuSample now;
    std::deque<TimedSample> power;
    bool ever_had_power_samples = false;
  };
  struct ScriptedFault {
    std::optional<int> gpu;
    Fault fault;
    std::string function;  // empty: all
  };

  void catch_up();
  void apply(const Record& record);
  void apply(const GpuSample& sample, double t_ms);
  void apply(const Event& event, double t_ms);
  std::uint64_t unix_us(double t_ms) const;

  Machine machine_;
  std::mutex mutex_;
  const std::int64_t start_monotonic_ns_;
  const std::int64_t start_unix_us_;
  const double opened_ms_;  // when this session of NVML began: restarts before it are over
  RecordingReader reader_;  // guarded by mutex_, like all below
  std::optional<Record> upcoming_;
  std::vector<Gpu> gpus_;
  ProcessTick processes_;
  std::vector<ScriptedFault> faults_;
  std::vector<XidEvent> xids_;
};

}  // namespace lockstep
