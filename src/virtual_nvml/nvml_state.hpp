// Between NVML's C interface and the virtual GPUs: initialisation, handles, scripted faults.
#pragma once

#include <nvml.h>

#include <cstddef>
#include <memory>
#include <optional>

#include "virtual_nvml/virtual_gpus.hpp"

namespace lockstep::virtual_nvml {

nvmlReturn_t initialise();
nvmlReturn_t shut_down();

// The GPUs while the library is initialised, else nothing.
std::shared_ptr<VirtualGpus> gpus();

// Physical GPUs come first in NVML's numbering; MIG slices are reached through their parent.
std::size_t physical_count(const VirtualGpus& gpus);
nvmlDevice_t handle_of(std::size_t gpu);
std::optional<std::size_t> index_of(nvmlDevice_t handle);
bool is_mig(const VirtualGpus& gpus, std::size_t gpu);

// What every call on a device does first: finds the GPU, and suffers the fault that is scripted for
// it.
struct Entry {
  nvmlReturn_t problem = NVML_SUCCESS;
  std::shared_ptr<VirtualGpus> all;
  std::size_t gpu = 0;

  explicit operator bool() const { return problem == NVML_SUCCESS; }
  const GpuInfo& info() const { return all->machine().gpus[gpu]; }
  GpuSample sample() const { return all->sample(gpu); }
};
Entry enter(nvmlDevice_t device, const char* function);

}  // namespace lockstep::virtual_nvml
