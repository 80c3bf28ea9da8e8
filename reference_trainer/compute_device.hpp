// A device that computes: a CUDA GPU, or a CPU core that stands for one (a virtual GPU).
//
// Each device has one thread, and all work for the device runs there. On the CPU that thread is
// named vgpu<i> and pinned to a core: while it runs, virtual GPU i is busy. Tensors made on the
// thread count as the device's memory.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "reference_trainer/torch_headers.hpp"

namespace lockstep {

struct DeviceMemory {
  std::int64_t allocated_bytes = 0;
  // held from the system: the caching allocator's on CUDA, the process's on the CPU
  std::int64_t reserved_bytes = 0;
  std::int64_t peak_bytes = 0;  // of allocated
};

class ComputeDevice {
 public:
  ComputeDevice(c10::DeviceType type, int index);
  ~ComputeDevice();
  ComputeDevice(const ComputeDevice&) = delete;
  ComputeDevice& operator=(const ComputeDevice&) = delete;

  at::Device torch_device() const { return device_; }
  int index() const { return index_; }
  int thread_id() const { return thread_id_; }

  // Runs `work` on the device's thread and waits for its end; what it throws is thrown here.
  void run(const std::function<void()>& work) { start(work).get(); }
  std::future<void> start(std::function<void()> work);

  DeviceMemory memory() const;
  std::int64_t allocated_bytes() const;  // of memory(), without asking the system: for every step
  // that it has; of a virtual GPU, its core's share of the machine's
  std::int64_t total_bytes() const;

 private:
  void set_up();  // on the thread
  void serve();
  void end();

  const at::Device device_;
  const int index_;
  std::atomic<int> thread_id_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::packaged_task<void()>> work_;  // guarded by mutex_
  bool ending_ = false;                          // guarded by mutex_
  std::thread thread_;
};

// Waits for all of them, whatever one throws (they share what they work on), then throws the first
// failure.
void wait_for_all(std::vector<std::future<void>>& ends);

// All devices at once: each runs the work for its place in the list.
void run_on_all(const std::vector<ComputeDevice*>& devices,
                const std::function<void(std::size_t place)>& work);

// How many of them this machine has: CUDA GPUs, or CPU cores that this process may use.
int cuda_device_count();
int cores_of_this_process();

// Makes tensors on the CPU count as memory of the device whose thread made them. Once, before the
// first tensor.
void count_cpu_memory();

// While it lives, tensors that this thread makes on the CPU count as the device's: what works for
// it on another thread.
class CountedFor {
 public:
  explicit CountedFor(const ComputeDevice& device);
  ~CountedFor();
  CountedFor(const CountedFor&) = delete;
  CountedFor& operator=(const CountedFor&) = delete;

 private:
  int before_;
};

}  // namespace lockstep
