// NVML's C interface over virtual GPUs: MIG slices, GPM samples, Xid events, peers.
#define NVML_NO_UNVERSIONED_FUNC_DEFS

#include <nvml.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <thread>

#include "virtual_nvml/nvml_state.hpp"

#define LOCKSTEP_EXPORT extern "C" __attribute__((visibility("default")))

using lockstep::virtual_nvml::enter;
using lockstep::virtual_nvml::Entry;

// --- MIG
// ------------------------------------------------------------------------------------------------

namespace {

// The slices of a physical GPU, in the order of the recording.
std::vector<std::size_t> slices_of(const Entry& entry) {
  std::vector<std::size_t> slices;
  const auto& gpus = entry.all->machine().gpus;
  for (std::size_t i = 0; i < gpus.size(); ++i)
    if (gpus[i].mig && gpus[i].mig->parent == gpus[entry.gpu].index) slices.push_back(i);
  return slices;
}

}  // namespace

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int* current,
                                                  unsigned int* pending) {
  const Entry entry = enter(device, __func__);
  if (!entry) return entry.problem;
  if (current == nullptr || pending == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *current = *pending = slices_of(entry).empty() ? NVML_DEVICE_MIG_DISABLE : NVML_DEVICE_MIG_ENABLE;
  return NVML_SUCCESS;
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device,
                                                         unsigned int* is_mig) {
  const Entry entry = enter(device, __func__);
  if (!entry) return entry.problem;
  *is_mig = lockstep::virtual_nvml::is_mig(*entry.all, entry.gpu) ? 1 : 0;
  return NVML_SUCCESS;
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device,
                                                            unsigned int* count) {
  const Entry entry = enter(device, __func__);
  if (!entry) return entry.problem;
  *count = slices_of(entry).empty() ? 0 : 7;
  return NVML_SUCCESS;
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device,
                                                                 unsigned int index,
                                                                 nvmlDevice_t* slice) {
  const Entry entry = enter(device, __func__);
  if (!entry) return entry.problem;
  const auto slices = slices_of(entry);
  if (index >= slices.size()) return NVML_ERROR_NOT_FOUND;
  *slice = lockstep::virtual_nvml::handle_of(slices[index]);
  return NVML_SUCCESS;
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t slice,
                                                                          nvmlDevice_t* device) {
  const Entry entry = enter(slice, __func__);
  if (!entry) return entry.problem;
  const auto& gpus = entry.all->machine().gpus;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (!entry.info().mig || gpus[i].mig || gpus[i].index != entry.info().mig->parent) continue;
    *device = lockstep::virtual_nvml::handle_of(i);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_INVALID_ARGUMENT;
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int* id) {
  const Entry entry = enter(device, __func__);
  if (!entry) return entry.problem;
  if (!entry.info().mig) return NVML_ERROR_INVALID_ARGUMENT;
  *id = static_cast<unsigned int>(entry.info().mig->instance);
  return NVML_SUCCESS;
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int* id) {
  const Entry entry = enter(device, __func__);
  if (!entry) return entry.problem;
  if (!entry.info().mig) return NVML_ERROR_INVALID_ARGUMENT;
  *id = 0;
  return NVML_SUCCESS;
}

// --- GPM
// ------------------------------------------------------------------------------------------------

struct nvmlGpmSample_st {
  lockstep::GpuSample sample;
};

namespace {

nvmlReturn_t take_gpm_sample(const Entry& entry, nvmlGpmSample_t into) {
  if (!entry.all->has_gpm(entry.gpu)) return NVML_ERROR_NOT_SUPPORTED;
  into->sample = entry.sample();
  return NVML_SUCCESS;
}

}  // namespace

LOCKSTEP_EXPORT nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device,
                                                       nvmlGpmSupport_t* support) {
  const Entry entry = enter(device, __func__);
  if (!entry) return entry.problem;
  support->isSupportedDevice = entry.all->has_gpm(entry.gpu) ? 1 : 0;
  return NVML_SUCCESS;
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t* sample) {
  *sample = new nvmlGpmSample_st;
  return NVML_SUCCESS;
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample) {
  delete sample;
  return NVML_SUCCESS;
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t into) {
  const Entry entry = enter(device, __func__);
  return entry ? take_gpm_sample(entry, into) : entry.problem;
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned int instance,
                                                 nvmlGpmSample_t into) {
  Entry entry = enter(device, __func__);
  if (!entry) return entry.problem;
  for (const std::size_t slice : slices_of(entry)) {
    if (static_cast<unsigned int>(entry.all->machine().gpus[slice].mig->instance) != instance)
      continue;
    entry.gpu = slice;
    return take_gpm_sample(entry, into);
  }
  return NVML_ERROR_NOT_FOUND;
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t* get) {
  const lockstep::GpuSample& sample = get->sample2->sample;
  for (unsigned int i = 0; i < get->numMetrics; ++i) {
    nvmlGpmMetric_t& metric = get->metrics[i];
    std::optional<double> fraction;
    if (metric.metricId == NVML_GPM_METRIC_SM_UTIL) fraction = sample.sm.value();
    if (metric.metricId == NVML_GPM_METRIC_ANY_TENSOR_UTIL) fraction = sample.tensor.value();
    if (metric.metricId == NVML_GPM_METRIC_DRAM_BW_UTIL) fraction = sample.dram.value();
    metric.nvmlReturn = fraction ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
    metric.value = fraction.value_or(0) * 100;
  }
  return NVML_SUCCESS;
}

// --- events
// ---------------------------------------------------------------------------------------------

struct nvmlEventSet_st {
  std::set<std::size_t> gpus;
  std::uint64_t seen = 0;
};

LOCKSTEP_EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t* set) {
  *set = new nvmlEventSet_st;
  return NVML_SUCCESS;
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
  delete set;
  return NVML_SUCCESS;
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device,
                                                              unsigned long long* types) {
  const Entry entry = enter(device, __func__);
  if (!entry) return entry.problem;
  *types = nvmlEventTypeXidCriticalError;
  return NVML_SUCCESS;
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                                      nvmlEventSet_t set) {
  const Entry entry = enter(device, __func__);
  if (!entry) return entry.problem;
  if ((types & static_cast<unsigned long long>(nvmlEventTypeXidCriticalError)) == 0)
    return NVML_ERROR_NOT_SUPPORTED;
  set->gpus.insert(entry.gpu);
  return NVML_SUCCESS;
}

LOCKSTEP_EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t* data,
                                                 unsigned int timeout_ms) {
  const auto all = lockstep::virtual_nvml::gpus();
  if (!all) return NVML_ERROR_UNINITIALIZED;
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (true) {
    for (const lockstep::XidEvent& event : all->xid_events(set->seen)) {
      set->seen = event.serial;
      const auto& gpus = all->machine().gpus;  // the recording's index is not the place in its list
      const auto found = std::ranges::find_if(
          gpus, [&](const lockstep::GpuInfo& info) { return info.index == event.gpu; });
      const auto gpu = static_cast<std::size_t>(found - gpus.begin());
      if (!set->gpus.contains(gpu)) continue;
      *data = {};
      data->device = lockstep::virtual_nvml::handle_of(gpu);
      data->eventType = nvmlEventTypeXidCriticalError;
      data->eventData = event.code;
      data->gpuInstanceId = data->computeInstanceId = 0xFFFFFFFFU;
      return NVML_SUCCESS;
    }
    if (std::chrono::steady_clock::now() >= until) return NVML_ERROR_TIMEOUT;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}
LOCKSTEP_EXPORT nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t* data,
                                              unsigned int timeout_ms) {
  return nvmlEventSetWait_v2(set, data, timeout_ms);
}

// --- peers
// ----------------------------------------------------------------------------------------------

LOCKSTEP_EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t first, nvmlDevice_t second,
                                                    nvmlGpuP2PCapsIndex_t,
                                                    nvmlGpuP2PStatus_t* status) {
  const Entry a = enter(first, __func__);
  const Entry b = enter(second, __func__);
  if (!a) return a.problem;
  if (!b) return b.problem;
  const auto& pairs = a.all->machine().peer_to_peer;
  if (!pairs) return NVML_ERROR_NOT_SUPPORTED;
  const bool reached = std::ranges::any_of(*pairs, [&](const std::pair<int, int>& pair) {
    return (pair.first == a.info().index && pair.second == b.info().index) ||
           (pair.first == b.info().index && pair.second == a.info().index);
  });
  *status = reached ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED;
  return NVML_SUCCESS;
}
