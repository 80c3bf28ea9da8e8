// What the driver says of the machine once: versions, modes, links. Nothing where it does not say.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/result.hpp"

namespace lockstep {

struct PcieLink {
  unsigned generation = 0;
  unsigned width = 0;
};

struct GpuHardware {
  int index = 0;
  std::string name;
  std::string bus;  // PCI address
  std::optional<double> memory_bytes;
  std::optional<bool> persistence;
  std::optional<bool> ecc;
  std::optional<std::uint64_t> ecc_corrected;  // since boot
  std::optional<std::uint64_t> ecc_uncorrected;
  std::optional<PcieLink> pcie_now;
  std::optional<PcieLink> pcie_possible;  // of GPU and slot together
  std::optional<int> numa_node;
  std::optional<int> nvlinks_up;  // nothing: it has none
  std::optional<int> nvlinks_down;
  // a kernel runs at this moment: an idle link rests at a lower generation
  bool busy = false;
};

struct GpuPair {
  int a = 0;
  int b = 0;
  std::optional<bool> peer_to_peer;
  // it is a matter of the kind of GPU, not of this machine
  bool never_can = false;
  std::string peer_status;  // in words, where it is not possible
  // "same board", "one PCIe switch", "host bridge", "NUMA node", "between sockets"
  std::string path;
};

struct DriverFacts {
  std::optional<std::string> driver;
  std::optional<std::string> cuda;  // the newest that the driver runs: "13.0"
  std::vector<GpuHardware> gpus;
  std::vector<GpuPair> pairs;  // a < b
};

// `library` empty: the driver's own. Blocks as long as the driver does.
Result<DriverFacts> read_driver_facts(const std::string& library,
                                      const std::filesystem::path& sysfs = "/sys");

}  // namespace lockstep
