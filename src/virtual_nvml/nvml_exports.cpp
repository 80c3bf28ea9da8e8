// NVML's C interface over virtual GPUs: system, devices, readings and processes.
//
// Prototypes come from nvml.h, so the compiler checks every signature. Functions that are not here
// do not exist for a client, as with an older driver; all NVML programs are ready for that.
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // clients of every age are served

#include <nvml.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/clock.hpp"
#include "lockstep/virtual_driver.hpp"
#include "virtual_nvml/nvml_state.hpp"

#define LOCKSTEP_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using lockstep::GpuSample;
using lockstep::Reading;
using lockstep::virtual_nvml::enter;
using lockstep::virtual_nvml::Entry;

// Bus ids only have to be unique and well formed: domain 0, one bus a GPU.
unsigned int bus_of(std::size_t gpu) { return static_cast<unsigned int>(gpu) + 1; }

// NVML's own spelling has a domain of eight digits, the older one (and sysfs) of four.
std::string bus_id(std::size_t gpu) {
  char text[32];
  std::snprintf(text, sizeof text, "00000000:%02X:00.0", bus_of(gpu));
  return text;
}
std::string legacy_bus_id(std::size_t gpu) { return bus_id(gpu).substr(4); }

nvmlReturn_t put_text(const std::string& text, char* into, unsigned int length) {
  if (into == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (text.size() + 1 > length) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(into, text.c_str(), text.size() + 1);
  return NVML_SUCCESS;
}

template <class T, class Out>
nvmlReturn_t put_number(const Reading<T>& reading, Out* into) {
  if (into == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const auto value = reading.value();
  if (!value) return NVML_ERROR_NOT_SUPPORTED;
  *into = static_cast<Out>(std::llround(static_cast<double>(*value)));
  return NVML_SUCCESS;
}

template <class Out>
nvmlReturn_t put_constant(nvmlDevice_t device, const char* function, Out* into, Out value) {
  const Entry entry = enter(device, function);
  if (!entry) return entry.problem;
  if (into == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *into = value;
  return NVML_SUCCESS;
}

nvmlReturn_t unsupported(nvmlDevice_t device, const char* function) {
  const Entry entry = enter(device, function);
  return entry ? NVML_ERROR_NOT_SUPPORTED : entry.problem;
}

}  // namespace

// --- system
// ---------------------------------------------------------------------------------------------

LOCKSTEP_EXPORT nvmlReturn_t nvmlInit_v2() { return lockstep::virtual_nvml::initialise(); }
LOCKSTEP_EXPORT nvmlReturn_t nvmlInit() { return lockstep::virtual_nvml::initialise(); }
LOCKSTEP_EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int) {
  return lockstep::virtual_nvml::initialise();
}
LOCKSTEP_EXPORT nvmlReturn_t nvmlShutdown() { return lockstep::virtual_nvml::shut_down(); }

LOCKSTEP_EXPORT const char* nvmlErrorString(nvmlReturn_t result) {
  switch (result) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT: return "Timeout";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    default: return "Unknown Error";
  }
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned int length) {
  const auto all = lockstep::virtual_nvml::gpus();
  if (!all) return NVML_ERROR_UNINITIALIZED;
  return put_text(all->machine().driver.value_or("0.0"), version, length);
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char* version, unsigned int length) {
  return put_text("13.0.lockstep-virtual", version, length);
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int* version) {
  if (version == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *version = 13000;
  return NVML_SUCCESS;
}
LOCKSTEP_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return nvmlSystemGetCudaDriverVersion(version);
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char* name,
                                                      unsigned int length) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%u/comm", pid);
  FILE* const file = std::fopen(path, "re");
  if (file == nullptr) return NVML_ERROR_NOT_FOUND;
  char text[64] = "";
  if (std::fgets(text, sizeof text, file) != nullptr) text[std::strcspn(text, "\n")] = '\0';
  std::fclose(file);
  return put_text(text, name, length);
}

// --- devices
// --------------------------------------------------------------------------------------------

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* count) {
  const auto all = lockstep::virtual_nvml::gpus();
  if (!all) return NVML_ERROR_UNINITIALIZED;
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *count = static_cast<unsigned int>(lockstep::virtual_nvml::physical_count(*all));
  return NVML_SUCCESS;
}
LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned int* count) {
  return nvmlDeviceGetCount_v2(count);
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index,
                                                           nvmlDevice_t* device) {
  const auto all = lockstep::virtual_nvml::gpus();
  if (!all) return NVML_ERROR_UNINITIALIZED;
  if (device == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  unsigned int physical = 0;
  for (std::size_t gpu = 0; gpu < all->machine().gpus.size(); ++gpu) {
    if (lockstep::virtual_nvml::is_mig(*all, gpu) || physical++ != index) continue;
    *device = lockstep::virtual_nvml::handle_of(gpu);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_INVALID_ARGUMENT;
}
LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t* device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  const auto all = lockstep::virtual_nvml::gpus();
  if (!all) return NVML_ERROR_UNINITIALIZED;
  if (uuid == nullptr || device == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  for (std::size_t gpu = 0; gpu < all->machine().gpus.size(); ++gpu) {
    if (all->machine().gpus[gpu].uuid != uuid) continue;
    *device = lockstep::virtual_nvml::handle_of(gpu);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* pci,
                                                              nvmlDevice_t* device) {
  const auto all = lockstep::virtual_nvml::gpus();
  if (!all) return NVML_ERROR_UNINITIALIZED;
  if (pci == nullptr || device == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  for (std::size_t gpu = 0; gpu < all->machine().gpus.size(); ++gpu) {
    if (bus_id(gpu) != pci && legacy_bus_id(gpu) != pci) continue;
    *device = lockstep::virtual_nvml::handle_of(gpu);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}
LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char* pci, nvmlDevice_t* device) {
  return nvmlDeviceGetHandleByPciBusId_v2(pci, device);
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name,
                                               unsigned int length) {
  const Entry entry = enter(device, __func__);
  return entry ? put_text(entry.info().name.value_or("lockstep virtual GPU (played)"), name, length)
               : entry.problem;
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid,
                                               unsigned int length) {
  const Entry entry = enter(device, __func__);
  if (!entry) return entry.problem;
  return entry.info().uuid ? put_text(*entry.info().uuid, uuid, length) : NVML_ERROR_NOT_SUPPORTED;
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int* index) {
  const Entry entry = enter(device, __func__);
  if (!entry) return entry.problem;
  if (index == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *index = static_cast<unsigned int>(entry.gpu);
  return NVML_SUCCESS;
}
LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int* minor) {
  return nvmlDeviceGetIndex(device, minor);
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  const Entry entry = enter(device, __func__);
  if (!entry) return entry.problem;
  if (pci == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *pci = {};
  pci->bus = bus_of(entry.gpu);
  put_text(legacy_bus_id(entry.gpu), pci->busIdLegacy, sizeof pci->busIdLegacy);
  put_text(bus_id(entry.gpu), pci->busId, sizeof pci->busId);
  return NVML_SUCCESS;
}
LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  return nvmlDeviceGetPciInfo_v3(device, pci);
}
LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  return nvmlDeviceGetPciInfo_v3(device, pci);
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major,
                                                                int* minor) {
  const Entry entry = enter(device, __func__);
  if (!entry) return entry.problem;
  if (major == nullptr || minor == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *major = 9;
  *minor = 0;
  return NVML_SUCCESS;
}
LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device,
                                                          nvmlEnableState_t* mode) {
  return put_constant(device, __func__, mode, NVML_FEATURE_ENABLED);
}
LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t device,
                                                      nvmlEnableState_t* mode) {
  return put_constant(device, __func__, mode, NVML_FEATURE_DISABLED);
}
LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t device,
                                                        nvmlEnableState_t* active) {
  return put_constant(device, __func__, active, NVML_FEATURE_DISABLED);
}
LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device,
                                                      nvmlComputeMode_t* mode) {
  return put_constant(device, __func__, mode, NVML_COMPUTEMODE_DEFAULT);
}
LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device,
                                                           nvmlPstates_t* state) {
  return put_constant(device, __func__, state, NVML_PSTATE_0);
}

// What clients ask for and a virtual GPU does not have. Each answers "not supported", as many real
// GPUs do.
#define LOCKSTEP_NOT_SUPPORTED(function, ...)                               \
  LOCKSTEP_EXPORT nvmlReturn_t function(nvmlDevice_t device, __VA_ARGS__) { \
    return unsupported(device, __func__);                                   \
  }

LOCKSTEP_NOT_SUPPORTED(nvmlDeviceGetFanSpeed, unsigned int*)
LOCKSTEP_NOT_SUPPORTED(nvmlDeviceGetFanSpeed_v2, unsigned int, unsigned int*)
LOCKSTEP_NOT_SUPPORTED(nvmlDeviceGetNumFans, unsigned int*)
LOCKSTEP_NOT_SUPPORTED(nvmlDeviceGetTotalEnergyConsumption, unsigned long long*)
LOCKSTEP_NOT_SUPPORTED(nvmlDeviceGetEncoderUtilization, unsigned int*, unsigned int*)
LOCKSTEP_NOT_SUPPORTED(nvmlDeviceGetDecoderUtilization, unsigned int*, unsigned int*)
LOCKSTEP_NOT_SUPPORTED(nvmlDeviceGetTotalEccErrors, nvmlMemoryErrorType_t, nvmlEccCounterType_t,
                       unsigned long long*)
LOCKSTEP_NOT_SUPPORTED(nvmlDeviceGetEccMode, nvmlEnableState_t*, nvmlEnableState_t*)
LOCKSTEP_NOT_SUPPORTED(nvmlDeviceGetDriverModel, nvmlDriverModel_t*, nvmlDriverModel_t*)
LOCKSTEP_NOT_SUPPORTED(nvmlDeviceGetDriverModel_v2, nvmlDriverModel_t*, nvmlDriverModel_t*)
LOCKSTEP_NOT_SUPPORTED(nvmlDeviceGetBAR1MemoryInfo, nvmlBAR1Memory_t*)
LOCKSTEP_NOT_SUPPORTED(nvmlDeviceGetSerial, char*, unsigned int)
LOCKSTEP_NOT_SUPPORTED(nvmlDeviceGetVbiosVersion, char*, unsigned int)
LOCKSTEP_NOT_SUPPORTED(nvmlDeviceGetTemperatureThreshold, nvmlTemperatureThresholds_t,
                       unsigned int*)
LOCKSTEP_NOT_SUPPORTED(nvmlDeviceGetPcieThroughput, nvmlPcieUtilCounter_t, unsigned int*)
LOCKSTEP_NOT_SUPPORTED(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int*)
LOCKSTEP_NOT_SUPPORTED(nvmlDeviceGetCurrPcieLinkWidth, unsigned int*)
LOCKSTEP_NOT_SUPPORTED(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int*)
LOCKSTEP_NOT_SUPPORTED(nvmlDeviceGetMaxPcieLinkWidth, unsigned int*)
LOCKSTEP_NOT_SUPPORTED(nvmlDeviceGetNvLinkState, unsigned int, nvmlEnableState_t*)
LOCKSTEP_NOT_SUPPORTED(nvmlDeviceGetNumGpuCores, unsigned int*)

// --- readings
// -------------------------------------------------------------------------------------------

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device,
                                                           nvmlUtilization_t* utilization) {
  const Entry entry = enter(device, __func__);
  if (!entry) return entry.problem;
  if (utilization == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (lockstep::virtual_nvml::is_mig(*entry.all, entry.gpu)) return NVML_ERROR_NOT_SUPPORTED;
  const auto busy = entry.sample().busy.value();
  if (!busy) return NVML_ERROR_NOT_SUPPORTED;
  utilization->gpu = static_cast<unsigned int>(std::lround(std::clamp(*busy, 0.0, 1.0) * 100));
  // the share of time memory was in use: at most as long as a kernel ran
  utilization->memory = utilization->gpu;
  return NVML_SUCCESS;
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  const Entry entry = enter(device, __func__);
  if (!entry) return entry.problem;
  const auto used = entry.all->memory_used_bytes(entry.gpu).value();
  if (!used || !entry.info().memory_total_bytes) return NVML_ERROR_NOT_SUPPORTED;
  memory->total = *entry.info().memory_total_bytes;
  memory->used = *used;
  memory->free = memory->total - std::min<unsigned long long>(memory->total, memory->used);
  return NVML_SUCCESS;
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device,
                                                        nvmlMemory_v2_t* memory) {
  nvmlMemory_t plain{};
  const nvmlReturn_t result = nvmlDeviceGetMemoryInfo(device, &plain);
  if (result != NVML_SUCCESS) return result;
  memory->total = plain.total;
  memory->reserved = 0;
  memory->free = plain.free;
  memory->used = plain.used;
  return NVML_SUCCESS;
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device,
                                                     unsigned int* milliwatts) {
  const Entry entry = enter(device, __func__);
  return entry ? put_number(entry.sample().power_mw, milliwatts) : entry.problem;
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device,
                                                             unsigned int* milliwatts) {
  const Entry entry = enter(device, __func__);
  if (!entry) return entry.problem;
  if (!entry.info().power_limit_mw) return NVML_ERROR_NOT_SUPPORTED;
  return put_number(Reading<double>(*entry.info().power_limit_mw), milliwatts);
}
LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device,
                                                               unsigned int* milliwatts) {
  return nvmlDeviceGetEnforcedPowerLimit(device, milliwatts);
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t device,
                                                                      unsigned int* milliwatts) {
  const Entry entry = enter(device, __func__);
  if (!entry) return entry.problem;
  if (!entry.info().power_limit_default_mw) return NVML_ERROR_NOT_SUPPORTED;
  return put_number(Reading<double>(*entry.info().power_limit_default_mw), milliwatts);
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t,
                                                      unsigned int* celsius) {
  const Entry entry = enter(device, __func__);
  return entry ? put_number(entry.sample().temperature_c, celsius) : entry.problem;
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type,
                                                    unsigned int* mhz) {
  const Entry entry = enter(device, __func__);
  if (!entry) return entry.problem;
  if (type != NVML_CLOCK_SM && type != NVML_CLOCK_GRAPHICS) return NVML_ERROR_NOT_SUPPORTED;
  return put_number(entry.sample().sm_clock_mhz, mhz);
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type,
                                                       unsigned int* mhz) {
  const Entry entry = enter(device, __func__);
  if (!entry) return entry.problem;
  const bool is_sm = type == NVML_CLOCK_SM || type == NVML_CLOCK_GRAPHICS;
  if (!is_sm || !entry.info().sm_clock_max_mhz) return NVML_ERROR_NOT_SUPPORTED;
  return put_number(Reading<double>(*entry.info().sm_clock_max_mhz), mhz);
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device,
                                                                    unsigned long long* reasons) {
  const Entry entry = enter(device, __func__);
  if (!entry) return entry.problem;
  const auto limits = entry.sample().limits.value();
  if (!limits) return NVML_ERROR_NOT_SUPPORTED;
  *reasons = 0;
  // the names stand in the order of NVML's bits
  for (std::size_t i = 0; i < lockstep::kClockLimitNames.size(); ++i)
    if (limits->has(static_cast<lockstep::ClockLimit>(i))) *reasons |= 1ULL << i;
  return NVML_SUCCESS;
}
LOCKSTEP_EXPORT nvmlReturn_t
nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long* reasons) {
  return nvmlDeviceGetCurrentClocksEventReasons(device, reasons);
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t device, nvmlSamplingType_t type,
                                                  unsigned long long last_seen,
                                                  nvmlValueType_t* value_type, unsigned int* count,
                                                  nvmlSample_t* samples) {
  const Entry entry = enter(device, __func__);
  if (!entry) return entry.problem;
  if (value_type == nullptr || count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (type != NVML_TOTAL_POWER_SAMPLES) return NVML_ERROR_NOT_SUPPORTED;
  const auto found = entry.all->power_samples(entry.gpu, last_seen);
  if (!found) return NVML_ERROR_NOT_SUPPORTED;
  *value_type = NVML_VALUE_TYPE_UNSIGNED_INT;
  if (samples == nullptr) {  // how many there can be
    *count = 120;
    return NVML_SUCCESS;
  }
  if (found->empty()) return NVML_ERROR_NOT_FOUND;
  const std::size_t copied = std::min<std::size_t>(*count, found->size());
  for (std::size_t i = 0; i < copied; ++i) {
    samples[i].timeStamp = (*found)[i].unix_us;
    samples[i].sampleValue.uiVal = (*found)[i].milliwatts;
  }
  *count = static_cast<unsigned int>(copied);
  return NVML_SUCCESS;
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count,
                                                      nvmlFieldValue_t* values) {
  const Entry entry = enter(device, __func__);
  if (!entry) return entry.problem;
  if (count < 0 || values == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const GpuSample sample = entry.sample();
  for (int i = 0; i < count; ++i) {
    nvmlFieldValue_t& field = values[i];
    field.timestamp = lockstep::unix_now().count() / 1000;
    field.latencyUsec = 0;
    field.valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
    field.value.ullVal = 0;
    const bool all_links = field.scopeId == 0xFFFFFFFFU;
    constexpr std::uint64_t kKiB = 1024;
    std::optional<std::uint64_t> found;
    const auto kib = [](const std::optional<std::uint64_t>& bytes) {
      return bytes ? std::optional(*bytes / kKiB) : std::nullopt;
    };
    if (field.fieldId == lockstep::kBusyWindowMsField && entry.info().busy_window_ms)
      found = static_cast<std::uint64_t>(std::llround(*entry.info().busy_window_ms));
    if (field.fieldId == NVML_FI_DEV_PCIE_COUNT_RX_BYTES) found = sample.pcie_rx_bytes.value();
    if (field.fieldId == NVML_FI_DEV_PCIE_COUNT_TX_BYTES) found = sample.pcie_tx_bytes.value();
    if (field.fieldId == NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX && all_links)
      found = kib(sample.nvlink_rx_bytes.value());
    if (field.fieldId == NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX && all_links)
      found = kib(sample.nvlink_tx_bytes.value());
    field.nvmlReturn = found ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
    if (found) field.value.ullVal = *found;
  }
  return NVML_SUCCESS;
}

// --- processes
// ------------------------------------------------------------------------------------------

namespace {

template <class Info>
nvmlReturn_t put_processes(nvmlDevice_t device, const char* function, unsigned int* count,
                           Info* infos) {
  const Entry entry = enter(device, function);
  if (!entry) return entry.problem;
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const auto processes = entry.all->processes(entry.gpu);
  const unsigned int room = *count;
  *count = static_cast<unsigned int>(processes.size());
  if (room < processes.size()) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    infos[i] = {};
    infos[i].pid = static_cast<unsigned int>(processes[i].pid);
    infos[i].usedGpuMemory = processes[i].memory_bytes.value_or(
        static_cast<unsigned long long>(NVML_VALUE_NOT_AVAILABLE));
    if constexpr (requires { infos[i].gpuInstanceId; })
      infos[i].gpuInstanceId = infos[i].computeInstanceId = 0xFFFFFFFFU;
  }
  return NVML_SUCCESS;
}

// Virtual GPUs draw no graphics and run no MPS server.
nvmlReturn_t no_processes(nvmlDevice_t device, const char* function, unsigned int* count) {
  const Entry entry = enter(device, function);
  if (!entry) return entry.problem;
  if (count != nullptr) *count = 0;
  return NVML_SUCCESS;
}

constexpr const char* kProcessList = "nvmlDeviceGetComputeRunningProcesses_v3";

}  // namespace

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device,
                                                                     unsigned int* count,
                                                                     nvmlProcessInfo_t* infos) {
  return put_processes(device, kProcessList, count, infos);
}
LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device,
                                                                     unsigned int* count,
                                                                     nvmlProcessInfo_v2_t* infos) {
  return put_processes(device, kProcessList, count, infos);
}
LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device,
                                                                  unsigned int* count,
                                                                  nvmlProcessInfo_v1_t* infos) {
  return put_processes(device, kProcessList, count, infos);
}
LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device,
                                                                      unsigned int* count,
                                                                      nvmlProcessInfo_t*) {
  return no_processes(device, __func__, count);
}
LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device,
                                                                      unsigned int* count,
                                                                      nvmlProcessInfo_v2_t*) {
  return no_processes(device, __func__, count);
}
LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device,
                                                                   unsigned int* count,
                                                                   nvmlProcessInfo_v1_t*) {
  return no_processes(device, __func__, count);
}
LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device,
                                                                        unsigned int* count,
                                                                        nvmlProcessInfo_t*) {
  return no_processes(device, __func__, count);
}

LOCKSTEP_EXPORT nvmlReturn_t
nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t* samples,
                                unsigned int* count, unsigned long long) {
  const Entry entry = enter(device, __func__);
  if (!entry) return entry.problem;
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const auto processes = entry.all->processes(entry.gpu);
  const unsigned int room = *count;
  *count = static_cast<unsigned int>(processes.size());
  if (processes.empty()) return NVML_ERROR_NOT_FOUND;
  if (samples == nullptr || room < processes.size()) return NVML_ERROR_INSUFFICIENT_SIZE;
  const double busy = entry.sample().busy.value().value_or(0);
  for (std::size_t i = 0; i < processes.size(); ++i) {
    samples[i] = {};
    samples[i].pid = static_cast<unsigned int>(processes[i].pid);
    samples[i].timeStamp = static_cast<unsigned long long>(lockstep::unix_now().count() / 1000);
    // The GPU's load is not kept apart by process; shared evenly it adds up to the GPU's own.
    samples[i].smUtil =
        static_cast<unsigned int>(std::lround(busy * 100 / static_cast<double>(processes.size())));
  }
  return NVML_SUCCESS;
}
