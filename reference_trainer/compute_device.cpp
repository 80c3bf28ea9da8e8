#include "reference_trainer/compute_device.hpp"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "base/file.hpp"
#include "base/text.hpp"
#include "reference_trainer/cuda/cuda_part.hpp"

namespace lockstep {
namespace {

constexpr int kMostDevices = 256;
thread_local int this_device = -1;  // of the thread: whose memory a new tensor is

struct Count {
  std::atomic<std::int64_t> allocated{0};
  std::atomic<std::int64_t> peak{0};
};
std::array<Count, kMostDevices> cpu_memory;

// Torch's own CPU memory, with the bytes noted. A GPU's allocator keeps such a count; the CPU's has
// none. The note lies in front of the block: libraries below torch want to free a block by its
// address alone.
class CountingAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &CountingAllocator::free, at::Device(at::kCPU)};
    auto* const note = static_cast<Note*>(c10::alloc_cpu(bytes + sizeof(Note)));
    note->size = static_cast<std::int64_t>(bytes);
    note->count = this_device < 0 ? nullptr : &cpu_memory[static_cast<std::size_t>(this_device)];
    if (note->count != nullptr) {
      const std::int64_t now =
          note->count->allocated.fetch_add(note->size, std::memory_order_relaxed) + note->size;
      std::int64_t peak = note->count->peak.load(std::memory_order_relaxed);
      while (now > peak &&
             !note->count->peak.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
      }
    }
    return {note + 1, note + 1, &CountingAllocator::free, at::Device(at::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &CountingAllocator::free; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  struct alignas(64) Note {  // as c10 aligns: what follows it must be
    std::int64_t size;
    Count* count;
  };
  static void free(void* data) {
    if (data == nullptr) return;
    auto* const note = static_cast<Note*>(data) - 1;
    if (note->count != nullptr)
      note->count->allocated.fetch_sub(note->size, std::memory_order_relaxed);
    c10::free_cpu(note);
  }
};

std::vector<int> allowed_cores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(static_cast<int>(core));
  return cores;
}

// The core that stands for GPU `index`. With more GPUs than cores they share.
void pin_to_core(int index) {
  const std::vector<int> cores = allowed_cores();
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cores[static_cast<std::size_t>(index) % cores.size()]), &set);
  ::pthread_setaffinity_np(::pthread_self(), sizeof set, &set);
}

std::int64_t resident_bytes() {
  const auto text = read_small_file("/proc/self/statm");
  const auto fields = split(text ? *text : std::string_view{}, ' ');
  const auto pages = fields.size() > 1 ? parse_integer(fields[1]) : std::nullopt;
  return pages.value_or(0) * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

CountedFor::CountedFor(const ComputeDevice& device) : before_(this_device) {
  if (device.torch_device().is_cpu()) this_device = device.index() % kMostDevices;
}
CountedFor::~CountedFor() { this_device = before_; }

void count_cpu_memory() {
  static CountingAllocator allocator;
  c10::SetCPUAllocator(&allocator, 1);
}

int cores_of_this_process() { return std::max<int>(1, static_cast<int>(allowed_cores().size())); }

int cuda_device_count() {
  const CudaPart* const cuda = cuda_part();
  return cuda != nullptr ? cuda->device_count() : 0;
}

ComputeDevice::ComputeDevice(c10::DeviceType type, int index)
    : device_(type == c10::DeviceType::CPU
                  ? at::Device(type)
                  : at::Device(type, static_cast<c10::DeviceIndex>(index))),
      index_(index),
      thread_([this] { serve(); }) {
  try {
    run([this] { set_up(); });
  } catch (...) {  // a GPU that refuses: no destructor runs now
    end();
    throw;
  }
}

ComputeDevice::~ComputeDevice() { end(); }

void ComputeDevice::end() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

std::future<void> ComputeDevice::start(std::function<void()> work) {
  std::packaged_task<void()> task(std::move(work));
  std::future<void> end = task.get_future();
  {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(task));
  }
  wake_.notify_one();
  return end;
}

void ComputeDevice::set_up() {
  thread_id_ = ::gettid();
  ::pthread_setname_np(::pthread_self(),
                       ((device_.is_cpu() ? "vgpu" : "gpu") + std::to_string(index_)).c_str());
  if (device_.is_cpu()) {
    pin_to_core(index_);
    this_device = index_ % kMostDevices;
    at::set_num_threads(1);  // a virtual GPU is one core
  } else {
    cuda_part()->use_device(index_);
  }
}

void ComputeDevice::serve() {
  while (true) {
    std::packaged_task<void()> task;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return ending_ || !work_.empty(); });
      if (work_.empty()) return;
      task = std::move(work_.front());
      work_.pop_front();
    }
    task();
  }
}

std::int64_t ComputeDevice::allocated_bytes() const {
  return device_.is_cpu()
             ? cpu_memory[static_cast<std::size_t>(index_ % kMostDevices)].allocated.load()
             : cuda_part()->memory(index_).allocated_bytes;
}

std::int64_t ComputeDevice::total_bytes() const {
  if (!device_.is_cpu()) return cuda_part()->total_memory(index_);
  return ::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGESIZE) /
         std::max<std::int64_t>(1, ::sysconf(_SC_NPROCESSORS_ONLN));
}

DeviceMemory ComputeDevice::memory() const {
  if (!device_.is_cpu()) return cuda_part()->memory(index_);
  const Count& count = cpu_memory[static_cast<std::size_t>(index_ % kMostDevices)];
  return {count.allocated.load(), resident_bytes(), count.peak.load()};
}

void wait_for_all(std::vector<std::future<void>>& ends) {
  for (std::future<void>& end : ends) end.wait();
  for (std::future<void>& end : ends) end.get();
}

void run_on_all(const std::vector<ComputeDevice*>& devices,
                const std::function<void(std::size_t place)>& work) {
  std::vector<std::future<void>> ends;
  for (std::size_t place = 0; place < devices.size(); ++place)
    ends.push_back(devices[place]->start([&work, place] { work(place); }));
  wait_for_all(ends);
}

}  // namespace lockstep
