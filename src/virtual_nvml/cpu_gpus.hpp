// Virtual GPUs that are CPU compute: GPU i is busy while a thread named vgpu<i> runs.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "virtual_nvml/compute_threads.hpp"
#include "virtual_nvml/gpu_model.hpp"
#include "virtual_nvml/virtual_gpus.hpp"

namespace lockstep {

class CpuGpus : public VirtualGpus {
 public:
  explicit CpuGpus(std::size_t count, const GpuModel& model = gpu_models().front());
  ~CpuGpus() override;
  CpuGpus(const CpuGpus&) = delete;
  CpuGpus& operator=(const CpuGpus&) = delete;

  const Machine& machine() const override { return machine_; }
  GpuSample sample(std::size_t gpu) override;
  Reading<std::uint64_t> memory_used_bytes(std::size_t gpu) override;
  std::vector<PidOnGpu> processes(std::size_t gpu) override;
  std::optional<std::vector<TimedSample>> power_samples(std::size_t gpu,
                                                        std::uint64_t since_us) override;
  bool has_gpm(std::size_t) override { return false; }
  Fault fault(std::size_t, const char*) override { return {}; }
  std::vector<XidEvent> xid_events(std::uint64_t) override { return {}; }

 private:
  struct Moment {
    Nanoseconds at{};
    Nanoseconds run_time{};
    std::uint64_t slices = 0;
    bool waiting = false;
    std::optional<double> hot_clock;
  };
  struct Load {
    double busy = 0;
    bool waiting = false;
    std::optional<double> hot_clock;
  };
  struct Gpu {
    std::deque<Moment> moments;     // the last half second or so, for windows
    std::deque<TimedSample> power;  // newest last
    double temperature_c = 0;       // follows the power slowly
    Nanoseconds temperature_at{};
    std::optional<GpuSample> last;  // what was said last, and when
    Nanoseconds last_at{};
  };

  Moment look(std::size_t gpu);
  static Load load_between(const Moment& from, const Moment& to);
  Load window_load(std::size_t gpu);
  double power_mw(double busy, bool waiting) const;
  double shown_power_mw(std::size_t gpu, const Load& now);
  void run_sampler();
  void take_power_samples(std::vector<Moment>& last, std::uint64_t stamp_us);

  const GpuModel& model_;
  Machine machine_;
  std::mutex mutex_;
  ComputeThreads threads_;  // guarded by mutex_, like all below
  std::vector<Gpu> gpus_;
  std::thread sampler_;
  std::atomic<bool> stop_ = false;
};

}  // namespace lockstep
