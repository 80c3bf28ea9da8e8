// NVML as loaded at run time: one list of functions, each required or optional.
//
// A driver without a required function is too old and named as such; one without an optional
// function gives less, and the report says what is missing.
#pragma once

// The unversioned names are the oldest forms of the calls, which is what very old drivers have.
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include <string>

#include "base/dynamic_library.hpp"
#include "lockstep/result.hpp"

// X(function, needed): needed is `required` or `optional`.
#define LOCKSTEP_NVML_FUNCTIONS(X)                       \
  X(nvmlInit_v2, required)                               \
  X(nvmlShutdown, required)                              \
  X(nvmlErrorString, required)                           \
  X(nvmlSystemGetDriverVersion, required)                \
  X(nvmlDeviceGetCount_v2, required)                     \
  X(nvmlDeviceGetHandleByIndex_v2, required)             \
  X(nvmlDeviceGetName, required)                         \
  X(nvmlDeviceGetUUID, required)                         \
  X(nvmlDeviceGetUtilizationRates, required)             \
  X(nvmlDeviceGetMemoryInfo, required)                   \
  X(nvmlInitWithFlags, optional)                         \
  X(nvmlDeviceGetMemoryInfo_v2, optional)                \
  X(nvmlDeviceGetPciInfo_v3, optional)                   \
  X(nvmlDeviceGetArchitecture, optional)                 \
  X(nvmlDeviceGetPowerUsage, optional)                   \
  X(nvmlDeviceGetEnforcedPowerLimit, optional)           \
  X(nvmlDeviceGetPowerManagementDefaultLimit, optional)  \
  X(nvmlDeviceGetMaxClockInfo, optional)                 \
  X(nvmlDeviceGetTemperature, optional)                  \
  X(nvmlDeviceGetClockInfo, optional)                    \
  X(nvmlDeviceGetCurrentClocksEventReasons, optional)    \
  X(nvmlDeviceGetCurrentClocksThrottleReasons, optional) \
  X(nvmlDeviceGetSamples, optional)                      \
  X(nvmlDeviceGetFieldValues, optional)                  \
  X(nvmlDeviceGetComputeRunningProcesses_v3, optional)   \
  X(nvmlDeviceGetComputeRunningProcesses_v2, optional)   \
  X(nvmlDeviceGetComputeRunningProcesses, optional)      \
  X(nvmlDeviceGetP2PStatus, optional)                    \
  X(nvmlSystemGetCudaDriverVersion_v2, optional)         \
  X(nvmlDeviceGetPersistenceMode, optional)              \
  X(nvmlDeviceGetEccMode, optional)                      \
  X(nvmlDeviceGetTotalEccErrors, optional)               \
  X(nvmlDeviceGetCurrPcieLinkGeneration, optional)       \
  X(nvmlDeviceGetMaxPcieLinkGeneration, optional)        \
  X(nvmlDeviceGetCurrPcieLinkWidth, optional)            \
  X(nvmlDeviceGetMaxPcieLinkWidth, optional)             \
  X(nvmlDeviceGetNvLinkState, optional)                  \
  X(nvmlDeviceGetTopologyCommonAncestor, optional)       \
  X(nvmlDeviceGetMigMode, optional)                      \
  X(nvmlDeviceGetMaxMigDeviceCount, optional)            \
  X(nvmlDeviceGetMigDeviceHandleByIndex, optional)       \
  X(nvmlDeviceGetGpuInstanceId, optional)                \
  X(nvmlGpmQueryDeviceSupport, optional)                 \
  X(nvmlGpmSampleAlloc, optional)                        \
  X(nvmlGpmSampleFree, optional)                         \
  X(nvmlGpmSampleGet, optional)                          \
  X(nvmlGpmMigSampleGet, optional)                       \
  X(nvmlGpmMetricsGet, optional)                         \
  X(nvmlEventSetCreate, optional)                        \
  X(nvmlEventSetFree, optional)                          \
  X(nvmlDeviceRegisterEvents, optional)                  \
  X(nvmlEventSetWait_v2, optional)

namespace lockstep {

struct NvmlApi {
  // `path` empty: the driver's own library, by its soname.
  static Result<NvmlApi> load(const std::string& path);

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // drivers of every age are served
#define LOCKSTEP_NVML_POINTER(function, needed) decltype(&::function) function = nullptr;
  LOCKSTEP_NVML_FUNCTIONS(LOCKSTEP_NVML_POINTER)
#undef LOCKSTEP_NVML_POINTER
#pragma GCC diagnostic pop
};

}  // namespace lockstep
