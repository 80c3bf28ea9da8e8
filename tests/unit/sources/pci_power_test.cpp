#include "sources/nvml/pci_power.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using testing::TemporaryFolder;

void put_device(const TemporaryFolder& sysfs, const std::string& address, const std::string& vendor,
                const std::string& kind, const std::string& status, const std::string& control,
                const std::string& driver = "nvidia") {
  const std::string folder = "bus/pci/devices/" + address + "/";
  sysfs.write(folder + "vendor", vendor + "\n");
  sysfs.write(folder + "class", kind + "\n");
  sysfs.write(folder + "power/runtime_status", status + "\n");
  sysfs.write(folder + "power/control", control + "\n");
  std::filesystem::create_symlink("/sys/bus/pci/drivers/" + driver, sysfs / (folder + "driver"));
}

TEST(PciPower, ListsNvidiaGpusInNvmlsOrder) {
  const TemporaryFolder sysfs;
  put_device(sysfs, "0000:65:00.0", "0x10de", "0x030200", "active", "on");
  put_device(sysfs, "0000:01:00.0", "0x10de", "0x030000", "suspended", "auto");
  put_device(sysfs, "0000:01:00.1", "0x10de", "0x040300", "active", "on");  // the card's sound
  put_device(sysfs, "0000:00:02.0", "0x8086", "0x030000", "active", "on", "i915");
  // a virtual machine's
  put_device(sysfs, "0000:00:09.0", "0x10de", "0x030200", "suspended", "auto", "vfio-pci");

  EXPECT_THAT(nvidia_gpu_addresses(sysfs.path()), ElementsAre("0000:01:00.0", "0000:65:00.0"));
}

TEST(PciPower, KnowsWhoSleeps) {
  const TemporaryFolder sysfs;
  put_device(sysfs, "0000:01:00.0", "0x10de", "0x030000", "suspended", "auto");
  put_device(sysfs, "0000:02:00.0", "0x10de", "0x030000", "active", "on");

  EXPECT_TRUE(is_suspended(sysfs.path(), "0000:01:00.0"));
  EXPECT_FALSE(is_suspended(sysfs.path(), "0000:02:00.0"));
  EXPECT_FALSE(is_suspended(sysfs.path(), "0000:99:00.0")) << "unknown is not asleep";
  EXPECT_FALSE(may_be_suspended(sysfs.path(), "0000:02:00.0"));
}

TEST(PciPower, WritesAddressesAsSysfsDoes) {
  EXPECT_EQ(sysfs_address("00000000:0A:00.0"), "0000:0a:00.0");
  EXPECT_EQ(sysfs_address("0000:0A:00.0"), "0000:0a:00.0");
}

}  // namespace
}  // namespace lockstep
