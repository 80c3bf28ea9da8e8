#include "sources/nvml/driver_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/file.hpp"
#include "base/text.hpp"
#include "sources/nvml/nvml_api.hpp"

namespace lockstep {
namespace {

template <class Value, class Call, class... Arguments>
std::optional<Value> asked(Call call, Arguments... arguments) {
  Value value{};
  if (call == nullptr || call(arguments..., &value) != NVML_SUCCESS) return std::nullopt;
  return value;
}

std::optional<PcieLink> link_of(std::optional<unsigned> generation, std::optional<unsigned> width) {
  return generation && width && *width > 0 ? std::optional(PcieLink{*generation, *width})
                                           : std::nullopt;
}

// "00000000:3B:00.0" in sysfs is 0000:3b:00.0.
std::optional<int> numa_of(const std::string& bus, const std::filesystem::path& sysfs) {
  std::string address = bus;
  if (address.size() > 12) address.erase(0, address.size() - 12);
  std::ranges::transform(address, address.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  const auto text = read_small_file(sysfs / "bus/pci/devices" / address / "numa_node");
  const auto number = text ? parse_integer(trim(*text)) : std::nullopt;
  // -1: the machine has no nodes
  return number && *number >= 0 ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

void count_links(const NvmlApi& api, nvmlDevice_t device, GpuHardware& gpu) {
  int up = 0;
  int down = 0;
  for (unsigned link = 0; link < NVML_NVLINK_MAX_LINKS; ++link) {
    const auto state = asked<nvmlEnableState_t>(api.nvmlDeviceGetNvLinkState, device, link);
    if (!state) continue;
    (*state == NVML_FEATURE_ENABLED ? up : down) += 1;
  }
  if (up + down == 0) return;
  gpu.nvlinks_up = up;
  gpu.nvlinks_down = down;
}

GpuHardware hardware_of(const NvmlApi& api, nvmlDevice_t device, int index,
                        const std::filesystem::path& sysfs) {
  GpuHardware gpu;
  gpu.index = index;
  std::array<char, NVML_DEVICE_NAME_V2_BUFFER_SIZE> name{};
  if (api.nvmlDeviceGetName(device, name.data(), static_cast<unsigned>(name.size())) ==
      NVML_SUCCESS)
    gpu.name = name.data();
  if (const auto pci = asked<nvmlPciInfo_t>(api.nvmlDeviceGetPciInfo_v3, device))
    gpu.bus = pci->busId;
  if (const auto memory = asked<nvmlMemory_t>(api.nvmlDeviceGetMemoryInfo, device))
    gpu.memory_bytes = static_cast<double>(memory->total);
  if (const auto mode = asked<nvmlEnableState_t>(api.nvmlDeviceGetPersistenceMode, device))
    gpu.persistence = *mode == NVML_FEATURE_ENABLED;
  nvmlEnableState_t current{};
  nvmlEnableState_t pending{};
  if (api.nvmlDeviceGetEccMode != nullptr &&
      api.nvmlDeviceGetEccMode(device, &current, &pending) == NVML_SUCCESS)
    gpu.ecc = current == NVML_FEATURE_ENABLED;
  gpu.ecc_corrected = asked<unsigned long long>(
      api.nvmlDeviceGetTotalEccErrors, device, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_VOLATILE_ECC);
  gpu.ecc_uncorrected =
      asked<unsigned long long>(api.nvmlDeviceGetTotalEccErrors, device,
                                NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC);
  gpu.pcie_now = link_of(asked<unsigned>(api.nvmlDeviceGetCurrPcieLinkGeneration, device),
                         asked<unsigned>(api.nvmlDeviceGetCurrPcieLinkWidth, device));
  gpu.pcie_possible = link_of(asked<unsigned>(api.nvmlDeviceGetMaxPcieLinkGeneration, device),
                              asked<unsigned>(api.nvmlDeviceGetMaxPcieLinkWidth, device));
  gpu.numa_node = numa_of(gpu.bus, sysfs);
  count_links(api, device, gpu);
  if (const auto use = asked<nvmlUtilization_t>(api.nvmlDeviceGetUtilizationRates, device))
    gpu.busy = use->gpu > 0;
  return gpu;
}

const char* path_words(nvmlGpuTopologyLevel_t level) {
  switch (level) {
    case NVML_TOPOLOGY_INTERNAL: return "same board";
    case NVML_TOPOLOGY_SINGLE: return "one PCIe switch";
    case NVML_TOPOLOGY_MULTIPLE: return "several PCIe switches";
    case NVML_TOPOLOGY_HOSTBRIDGE: return "one host bridge";
    case NVML_TOPOLOGY_NODE: return "one NUMA node";
    case NVML_TOPOLOGY_SYSTEM: return "between sockets";
    default: return "unknown";
  }
}

const char* peer_words(nvmlGpuP2PStatus_t status) {
  switch (status) {
    case NVML_P2P_STATUS_OK: return "";
    case NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED: return "the chipset does not support it";
    case NVML_P2P_STATUS_GPU_NOT_SUPPORTED: return "the GPUs do not support it";
    case NVML_P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED: return "no path between their bridges";
    case NVML_P2P_STATUS_DISABLED_BY_REGKEY: return "switched off in the driver";
    case NVML_P2P_STATUS_NOT_SUPPORTED: return "not supported";
    default: return "unknown";
  }
}

GpuPair pair_of(const NvmlApi& api, nvmlDevice_t a, nvmlDevice_t b) {
  GpuPair pair;
  if (const auto status =
          asked<nvmlGpuP2PStatus_t>(api.nvmlDeviceGetP2PStatus, a, b, NVML_P2P_CAPS_INDEX_READ)) {
    pair.peer_to_peer = *status == NVML_P2P_STATUS_OK;
    pair.peer_status = peer_words(*status);
    pair.never_can =
        *status == NVML_P2P_STATUS_GPU_NOT_SUPPORTED || *status == NVML_P2P_STATUS_NOT_SUPPORTED;
  }
  if (const auto level =
          asked<nvmlGpuTopologyLevel_t>(api.nvmlDeviceGetTopologyCommonAncestor, a, b))
    pair.path = path_words(*level);
  return pair;
}

}  // namespace

Result<DriverFacts> read_driver_facts(const std::string& library,
                                      const std::filesystem::path& sysfs) {
  auto api = TRY(NvmlApi::load(library));
  if (const nvmlReturn_t problem = api.nvmlInit_v2(); problem != NVML_SUCCESS)
    return Error{fmt::format("the driver does not start: {}", api.nvmlErrorString(problem)),
                 "see `nvidia-smi`, and `dmesg | grep -i nvrm`"};
  DriverFacts facts;
  std::array<char, NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE> version{};
  if (api.nvmlSystemGetDriverVersion(version.data(), static_cast<unsigned>(version.size())) ==
      NVML_SUCCESS)
    facts.driver = version.data();
  if (const auto cuda = asked<int>(api.nvmlSystemGetCudaDriverVersion_v2))
    facts.cuda = fmt::format("{}.{}", *cuda / 1000, *cuda % 1000 / 10);
  std::vector<nvmlDevice_t> devices;
  const unsigned count = asked<unsigned>(api.nvmlDeviceGetCount_v2).value_or(0);
  for (unsigned i = 0; i < count; ++i)
    if (const auto device = asked<nvmlDevice_t>(api.nvmlDeviceGetHandleByIndex_v2, i)) {
      devices.push_back(*device);
      facts.gpus.push_back(hardware_of(api, *device, static_cast<int>(i), sysfs));
    }
  for (std::size_t a = 0; a < devices.size(); ++a)
    for (std::size_t b = a + 1; b < devices.size(); ++b) {
      GpuPair pair = pair_of(api, devices[a], devices[b]);
      pair.a = facts.gpus[a].index;
      pair.b = facts.gpus[b].index;
      facts.pairs.push_back(std::move(pair));
    }
  api.nvmlShutdown();
  return facts;
}

}  // namespace lockstep
