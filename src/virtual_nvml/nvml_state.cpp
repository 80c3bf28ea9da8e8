#include "virtual_nvml/nvml_state.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

namespace lockstep::virtual_nvml {
namespace {

struct State {
  std::mutex mutex;
  int users = 0;  // NVML counts nvmlInit calls
  std::shared_ptr<VirtualGpus> gpus;
  // set by a scripted restart, for the next nvmlInit
  std::optional<std::int64_t> restarted_from_ns;
};

// Never destroyed: a thread may be inside a call while the program ends.
State& state() {
  static State* const instance = new State;
  return *instance;
}

void note_restart(const VirtualGpus& gpus) {
  const std::lock_guard lock(state().mutex);
  state().restarted_from_ns = gpus.started_ns();
}

// A handle is the address of the GPU's slot here; nothing is ever stored behind it.
char handle_slots[4096];

}  // namespace

nvmlReturn_t initialise() {
  State& global = state();
  const std::lock_guard lock(global.mutex);
  if (global.users == 0) {
    const char* const description = std::getenv("LOCKSTEP_VIRTUAL");
    auto made = make_virtual_gpus(description != nullptr ? description : "1",
                                  std::exchange(global.restarted_from_ns, std::nullopt));
    if (!made) {
      std::fprintf(stderr, "lockstep virtual NVML: %s\n  next: %s\n", made.error().what.c_str(),
                   made.error().next.c_str());
      return NVML_ERROR_DRIVER_NOT_LOADED;
    }
    global.gpus = std::move(*made);
  }
  ++global.users;
  return NVML_SUCCESS;
}

nvmlReturn_t shut_down() {
  std::shared_ptr<VirtualGpus> last;
  State& global = state();
  const std::lock_guard lock(global.mutex);
  if (global.users == 0) return NVML_ERROR_UNINITIALIZED;
  if (--global.users == 0) last = std::move(global.gpus);
  return NVML_SUCCESS;
}

std::shared_ptr<VirtualGpus> gpus() {
  State& global = state();
  const std::lock_guard lock(global.mutex);
  return global.gpus;
}

std::size_t physical_count(const VirtualGpus& gpus) {
  std::size_t count = 0;
  for (const GpuInfo& info : gpus.machine().gpus) count += info.mig ? 0U : 1U;
  return count;
}

nvmlDevice_t handle_of(std::size_t gpu) {
  return reinterpret_cast<nvmlDevice_t>(&handle_slots[gpu]);
}

std::optional<std::size_t> index_of(nvmlDevice_t handle) {
  const char* const slot = reinterpret_cast<const char*>(handle);
  if (slot < handle_slots || slot >= handle_slots + sizeof handle_slots) return std::nullopt;
  return static_cast<std::size_t>(slot - handle_slots);
}

bool is_mig(const VirtualGpus& gpus, std::size_t gpu) {
  return gpus.machine().gpus[gpu].mig.has_value();
}

Entry enter(nvmlDevice_t device, const char* function) {
  Entry entry;
  entry.all = gpus();
  if (!entry.all) {
    entry.problem = NVML_ERROR_UNINITIALIZED;
    return entry;
  }
  const auto gpu = index_of(device);
  if (!gpu || *gpu >= entry.all->machine().gpus.size()) {
    entry.problem = NVML_ERROR_INVALID_ARGUMENT;
    return entry;
  }
  entry.gpu = *gpu;
  const Fault fault = entry.all->fault(*gpu, function);
  switch (fault.kind) {
    case Fault::Kind::none: break;
    case Fault::Kind::lost: entry.problem = NVML_ERROR_GPU_IS_LOST; break;
    case Fault::Kind::restart:
      entry.problem = NVML_ERROR_UNINITIALIZED;
      note_restart(*entry.all);
      break;
    case Fault::Kind::not_supported: entry.problem = NVML_ERROR_NOT_SUPPORTED; break;
    case Fault::Kind::slow:
      std::this_thread::sleep_for(std::chrono::milliseconds(fault.delay_ms));
      break;
    case Fault::Kind::hang:
      while (true) std::this_thread::sleep_for(std::chrono::hours(1));
  }
  return entry;
}

}  // namespace lockstep::virtual_nvml
