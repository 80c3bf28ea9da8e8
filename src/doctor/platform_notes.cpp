#include "doctor/platform_notes.hpp"

#include <system_error>

#include "base/file.hpp"
#include "base/text.hpp"

namespace lockstep {
namespace {

bool contains(const std::filesystem::path& file, std::string_view word) {
  return read_small_file(file, 65536).value_or("").find(word) != std::string::npos;
}

bool has_gpu_of(const std::filesystem::path& root, std::string_view vendor) {
  std::error_code missing;
  for (const auto& device :
       std::filesystem::directory_iterator(root / "sys/bus/pci/devices", missing)) {
    const auto id = read_small_file(device.path() / "vendor", 16).value_or("");
    const auto kind = read_small_file(device.path() / "class", 16).value_or("");
    if (trim(id) == vendor && kind.starts_with("0x03")) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> platform_notes(const std::filesystem::path& root) {
  std::vector<std::string> notes;
  std::error_code missing;
  if (contains(root / "proc/version", "microsoft") ||
      std::filesystem::exists(root / "dev/dxg", missing))
    notes.emplace_back(
        "This is WSL2: Windows owns the GPU, so the driver gives no memory by process, often no "
        "process list, no GPM "
        "and no Xid events. Utilization, power and memory work; verdicts rest on those. For the "
        "rest use Linux itself.");
  if (std::filesystem::exists(root / "dev/kfd", missing) || has_gpu_of(root, "0x1002"))
    notes.emplace_back(
        "There is an AMD GPU here: lockstep reads NVIDIA GPUs only. It can still read logs and "
        "traces made on it; "
        "amd-smi and rocprof measure it live.");
  if (has_gpu_of(root, "0x8086") && !has_gpu_of(root, "0x10de"))
    notes.emplace_back("The only GPU here is Intel's: lockstep reads NVIDIA GPUs only.");
  if (contains(root / "proc/device-tree/compatible", "apple,"))
    notes.emplace_back(
        "This is Apple silicon: its GPU has no NVML, and lockstep cannot measure it. Virtual GPUs "
        "work.");
  return notes;
}

}  // namespace lockstep
