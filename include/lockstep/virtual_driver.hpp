// What lockstep's virtual driver tells beyond NVML's own fields. A real driver answers "not
// supported".
#pragma once

#include <array>
#include <string_view>

namespace lockstep {

// GPUs that `virtual:2xNAME` can be like; the first is what `virtual:2` is.
inline constexpr std::array<std::string_view, 5> kVirtualModels = {"H200", "H100", "A100-40GB",
                                                                   "RTX-4090", "RTX-3090"};

// A field value (nvmlDeviceGetFieldValues): how far back utilization looks, in milliseconds. A real
// driver shows that by the spacing of its utilization buffer; a virtual one has no past when it is
// first asked.
inline constexpr unsigned int kBusyWindowMsField = 0x4C530001;

}  // namespace lockstep
