#include "doctor/platform_notes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temporary_folder.hpp"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TemporaryFolder;

TEST(PlatformNotes, KnowWsl2) {
  const TemporaryFolder root;
  root.write("proc/version", "Linux version 5.15.90.1-microsoft-standard-WSL2\n");

  EXPECT_THAT(platform_notes(root.path()), ElementsAre(HasSubstr("WSL2")));
}

TEST(PlatformNotes, KnowAmdAndIntel) {
  const TemporaryFolder amd;
  amd.write("sys/bus/pci/devices/0000:03:00.0/vendor", "0x1002\n");
  amd.write("sys/bus/pci/devices/0000:03:00.0/class", "0x038000\n");
  const TemporaryFolder intel;
  intel.write("sys/bus/pci/devices/0000:00:02.0/vendor", "0x8086\n");
  intel.write("sys/bus/pci/devices/0000:00:02.0/class", "0x030000\n");

  EXPECT_THAT(platform_notes(amd.path()), ElementsAre(HasSubstr("AMD")));
  EXPECT_THAT(platform_notes(intel.path()), ElementsAre(HasSubstr("Intel")));
}

TEST(PlatformNotes, KnowAppleSilicon) {
  const TemporaryFolder root;
  root.write("proc/device-tree/compatible", std::string("apple,j314s\0apple,t6000\0", 24));

  EXPECT_THAT(platform_notes(root.path()), ElementsAre(HasSubstr("Apple")));
}

TEST(PlatformNotes, AreSilentOnAnOrdinaryServer) {
  const TemporaryFolder root;
  root.write("proc/version", "Linux version 6.1.0 (gcc 12)\n");
  root.write("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
  root.write("sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n");
  root.write("sys/bus/pci/devices/0000:00:02.0/vendor", "0x8086\n");
  root.write("sys/bus/pci/devices/0000:00:02.0/class", "0x030000\n");

  EXPECT_THAT(platform_notes(root.path()), IsEmpty())
      << "an Intel display beside an NVIDIA GPU is no news";
}

}  // namespace
}  // namespace lockstep
