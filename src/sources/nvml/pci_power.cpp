#include "sources/nvml/pci_power.hpp"

#include <algorithm>
#include <cctype>
#include <system_error>

#include "base/file.hpp"
#include "base/text.hpp"

namespace lockstep {
namespace {

std::string attribute(const std::filesystem::path& sysfs, const std::string& address,
                      const char* name) {
  return std::string(
      trim(read_small_file(sysfs / "bus/pci/devices" / address / name, 256).value_or("")));
}

}  // namespace

std::vector<std::string> nvidia_gpu_addresses(const std::filesystem::path& sysfs) {
  std::vector<std::string> addresses;
  std::error_code missing;
  for (const auto& entry :
       std::filesystem::directory_iterator(sysfs / "bus/pci/devices", missing)) {
    const std::string address = entry.path().filename().string();
    // Display controllers: 0x0300 VGA, 0x0302 3D. The audio function of a card is class 0x0403.
    // NVML counts what its own driver holds; a card handed to a virtual machine (vfio) is not among
    // them.
    const auto driver = std::filesystem::read_symlink(entry.path() / "driver", missing).filename();
    if (driver == "nvidia" && attribute(sysfs, address, "vendor") == "0x10de" &&
        attribute(sysfs, address, "class").starts_with("0x03"))
      addresses.push_back(address);
  }
  std::ranges::sort(addresses);
  return addresses;
}

bool is_suspended(const std::filesystem::path& sysfs, const std::string& address) {
  return attribute(sysfs, address, "power/runtime_status") == "suspended";
}

bool may_be_suspended(const std::filesystem::path& sysfs, const std::string& address) {
  return attribute(sysfs, address, "power/control") == "auto";
}

std::string sysfs_address(const std::string& nvml_bus_id) {
  std::string address = nvml_bus_id;
  std::ranges::transform(address, address.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  const auto colon = address.find(':');
  return colon == 8 ? address.substr(4) : address;
}

}  // namespace lockstep
