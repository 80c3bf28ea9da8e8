// What the probe knows of CUPTI's records, against the toolkit's own headers.
#include <cupti.h>
#include <gtest/gtest.h>

#include <cstddef>

namespace probe {
extern "C" {
#include "probes/cuda/cupti_abi.h"
}
}  // namespace probe

namespace {

#define SAME_PLACE(own, own_field, record, field) \
  EXPECT_EQ(offsetof(probe::own, own_field), offsetof(record, field)) << #record "." #field

TEST(CuptiAbi, KernelsLieAsInEveryVersionSinceCuda11) {
#define KERNEL(record)                                \
  SAME_PLACE(cupti_kernel, start, record, start);     \
  SAME_PLACE(cupti_kernel, end, record, end);         \
  SAME_PLACE(cupti_kernel, device, record, deviceId); \
  SAME_PLACE(cupti_kernel, stream, record, streamId); \
  SAME_PLACE(cupti_kernel, name, record, name)
  KERNEL(CUpti_ActivityKernel4);
  KERNEL(CUpti_ActivityKernel5);
  KERNEL(CUpti_ActivityKernel6);
  KERNEL(CUpti_ActivityKernel7);
  KERNEL(CUpti_ActivityKernel8);
  KERNEL(CUpti_ActivityKernel9);
#if CUPTI_API_VERSION >= 130000
  KERNEL(CUpti_ActivityKernel10);
#endif
}

TEST(CuptiAbi, CopiesFillsWaitsAndOverheadsToo) {
#define COPY(record)                                      \
  SAME_PLACE(cupti_memcpy, bytes, record, bytes);         \
  SAME_PLACE(cupti_memcpy, start, record, start);         \
  SAME_PLACE(cupti_memcpy, end, record, end);             \
  SAME_PLACE(cupti_memcpy, device, record, deviceId);     \
  SAME_PLACE(cupti_memcpy, stream, record, streamId);     \
  SAME_PLACE(cupti_memcpy, source_kind, record, srcKind); \
  SAME_PLACE(cupti_memcpy, target_kind, record, dstKind)
  COPY(CUpti_ActivityMemcpy4);
  COPY(CUpti_ActivityMemcpy5);
#if CUPTI_API_VERSION >= 130000
  COPY(CUpti_ActivityMemcpy6);
#endif
  SAME_PLACE(cupti_memset, bytes, CUpti_ActivityMemset3, bytes);
  SAME_PLACE(cupti_memset, stream, CUpti_ActivityMemset3, streamId);
  SAME_PLACE(cupti_memset, device, CUpti_ActivityMemset4, deviceId);
  SAME_PLACE(cupti_synchronization, type, CUpti_ActivitySynchronization, type);
  SAME_PLACE(cupti_synchronization, end, CUpti_ActivitySynchronization, end);
  SAME_PLACE(cupti_synchronization, stream, CUpti_ActivitySynchronization, streamId);
  SAME_PLACE(cupti_overhead, start, CUpti_ActivityOverhead, start);
  SAME_PLACE(cupti_overhead, end, CUpti_ActivityOverhead2, end);
}

TEST(CuptiAbi, NumbersAreTheToolkits) {
  EXPECT_EQ(static_cast<int>(probe::CUPTI_KIND_CONCURRENT_KERNEL),
            static_cast<int>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
  EXPECT_EQ(static_cast<int>(probe::CUPTI_KIND_MEMCPY),
            static_cast<int>(CUPTI_ACTIVITY_KIND_MEMCPY));
  EXPECT_EQ(static_cast<int>(probe::CUPTI_KIND_MEMSET),
            static_cast<int>(CUPTI_ACTIVITY_KIND_MEMSET));
  EXPECT_EQ(static_cast<int>(probe::CUPTI_KIND_SYNCHRONIZATION),
            static_cast<int>(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION));
  EXPECT_EQ(static_cast<int>(probe::CUPTI_KIND_OVERHEAD),
            static_cast<int>(CUPTI_ACTIVITY_KIND_OVERHEAD));
  EXPECT_EQ(CUPTI_NO_MORE_RECORDS, static_cast<int>(CUPTI_ERROR_MAX_LIMIT_REACHED));
  EXPECT_EQ(CUPTI_FLUSH_FORCED, static_cast<unsigned>(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
}

}  // namespace
