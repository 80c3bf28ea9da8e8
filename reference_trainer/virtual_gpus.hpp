// Tells the virtual driver about this process's virtual GPUs: their threads, their memory, and
// whether they wait in a collective (a real GPU spins there and reads 100 % busy at low power; a
// CPU thread sleeps).
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <vector>

#include "reference_trainer/compute_device.hpp"
#include "reference_trainer/runtime_file.hpp"

namespace lockstep {

class VirtualGpus {
 public:
  // Does nothing for devices that are not on the CPU.
  explicit VirtualGpus(std::vector<ComputeDevice*> devices);
  VirtualGpus(const VirtualGpus&) = delete;
  VirtualGpus& operator=(const VirtualGpus&) = delete;

  // All of this process's devices wait for other processes, or work again.
  void set_waiting(bool waiting);
  // They are too hot: this share of their clock is left.
  void set_hot(double clock);
  // The memory of now, at most twice a second.
  void refresh();

 private:
  void write();

  std::vector<ComputeDevice*> devices_;  // empty: nothing is told
  std::optional<RuntimeFile> file_;
  std::mutex mutex_;
  bool waiting_ = false;                   // guarded
  std::optional<double> hot_clock_;        // guarded
  std::chrono::nanoseconds written_at_{};  // guarded
};

}  // namespace lockstep
