// Which GPUs sleep (runtime power management), read from sysfs so that asking does not wake them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep {

// PCI addresses ("0000:01:00.0") of the GPUs that the NVIDIA driver holds, in the order of NVML's
// indices.
std::vector<std::string> nvidia_gpu_addresses(const std::filesystem::path& sysfs);

// Whether the kernel has suspended the device. False when it cannot be told.
bool is_suspended(const std::filesystem::path& sysfs, const std::string& address);

// Whether the kernel may suspend it at all ("auto"); most servers have it off.
bool may_be_suspended(const std::filesystem::path& sysfs, const std::string& address);

// NVML writes the domain with eight digits and capitals; sysfs with four and small letters.
std::string sysfs_address(const std::string& nvml_bus_id);

}  // namespace lockstep
