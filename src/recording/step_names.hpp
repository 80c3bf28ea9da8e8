// The numbers of a step on its GPUs by their names in a recording, for its writer and its reader.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "lockstep/device_time.hpp"

namespace lockstep::recording_format {

inline constexpr std::array<std::pair<std::string_view, double DeviceTime::*>, 5> kDeviceNumbers = {
    {{"computes_ms", &DeviceTime::computes_ms},
     {"collective_ms", &DeviceTime::collective_ms},
     {"exposed_ms", &DeviceTime::exposed_ms},
     {"copies_ms", &DeviceTime::copies_ms},
     {"idle_ms", &DeviceTime::idle_ms}}};
inline constexpr std::array<std::pair<std::string_view, double StepOnDevices::*>, 9>
    kOnDevicesNumbers = {{{"any_ms", &StepOnDevices::any_ms},
                          {"exclusive_ms", &StepOnDevices::exclusive_ms},
                          {"launch_gaps_ms", &StepOnDevices::launch_gaps_ms},
                          {"waits_ms", &StepOnDevices::waits_ms},
                          {"pageable_bytes", &StepOnDevices::pageable_bytes},
                          {"pageable_ms", &StepOnDevices::pageable_ms},
                          {"plain_matmul_ms", &StepOnDevices::plain_matmul_ms},
                          {"tensor_core_ms", &StepOnDevices::tensor_core_ms},
                          {"overhead_ms", &StepOnDevices::overhead_ms}}};
inline constexpr std::array<std::pair<std::string_view, std::int64_t StepOnDevices::*>, 3>
    kOnDevicesCounts = {{{"hand_overs", &StepOnDevices::hand_overs},
                         {"launch_gaps", &StepOnDevices::launch_gaps},
                         {"waits", &StepOnDevices::waits}}};

}  // namespace lockstep::recording_format
