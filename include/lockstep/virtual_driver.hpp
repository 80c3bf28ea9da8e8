// What lockstep's virtual driver tells beyond NVML's own fields. A real driver answers "not
// supported".
#pragma once

namespace lockstep {

// A field value (nvmlDeviceGetFieldValues): how far back utilization looks, in milliseconds. A real
// driver shows that by the spacing of its utilization buffer; a virtual one has no past when it is
// first asked.
inline constexpr unsigned int kBusyWindowMsField = 0x4C530001;

}  // namespace lockstep
