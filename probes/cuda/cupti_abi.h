/* The part of CUPTI's binary interface that the probe uses, so that it builds without a CUDA
 * toolkit and speaks with whichever libcupti the process has loaded.
 *
 * Layouts of activity records grow at their end: what is written here lies at the same places in
 * CUpti_ActivityKernel4 to 10, Memcpy4 to 6, Memset2 to 4, Synchronization, Synchronization2 and
 * Overhead to Overhead3, which are those of CUDA 11 to 13 (compared in the headers of CUDA 13.0,
 * which still hold the old ones; tests/probes/cupti_abi_test.cpp compares again where a toolkit
 * is). */
#ifndef LOCKSTEP_CUPTI_ABI_H
#define LOCKSTEP_CUPTI_ABI_H

#include <stddef.h>
#include <stdint.h>

enum cupti_activity_kind {
  CUPTI_KIND_MEMCPY = 1,
  CUPTI_KIND_MEMSET = 2,
  CUPTI_KIND_CONCURRENT_KERNEL = 10,
  CUPTI_KIND_OVERHEAD = 17,
  CUPTI_KIND_SYNCHRONIZATION = 38
};

#define CUPTI_OK 0
#define CUPTI_NO_MORE_RECORDS 12 /* CUPTI_ERROR_MAX_LIMIT_REACHED */
#define CUPTI_FLUSH_FORCED 1U
#define CUPTI_STREAM_WAITS 2U /* cudaStreamWaitEvent: a stream's wait, not the host's */

/* All of them begin with their kind. CUPTI packs records to eight bytes. */
struct cupti_activity {
  uint32_t kind;
};

struct cupti_kernel {
  uint32_t kind;
  uint8_t settings[12];
  uint64_t start;
  uint64_t end;
  uint64_t completed;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint8_t shape[52]; /* grid, block, memory, correlation */
  const char* name;
};

struct cupti_memcpy {
  uint32_t kind;
  uint8_t copy_kind;
  uint8_t source_kind;
  uint8_t target_kind;
  uint8_t flags;
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
};

struct cupti_memset {
  uint32_t kind;
  uint32_t value;
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
};

struct cupti_synchronization {
  uint32_t kind;
  uint32_t type;
  uint64_t start;
  uint64_t end;
  uint32_t correlation;
  uint32_t context;
  uint32_t stream;
};

struct cupti_overhead {
  uint32_t kind;
  uint32_t overhead_kind;
  uint8_t object[16];
  uint64_t start;
  uint64_t end;
};

typedef void (*cupti_buffer_requested)(uint8_t** buffer, size_t* size, size_t* most_records);
typedef void (*cupti_buffer_completed)(void* context, uint32_t stream, uint8_t* buffer, size_t size,
                                       size_t valid_size);
typedef uint64_t (*cupti_clock)(void);

struct cupti_calls {
  int (*register_callbacks)(cupti_buffer_requested requested, cupti_buffer_completed completed);
  int (*enable)(uint32_t kind);
  int (*disable)(uint32_t kind);
  int (*flush_all)(uint32_t flags);
  int (*next_record)(uint8_t* buffer, size_t valid_size, struct cupti_activity** record);
  int (*dropped_records)(void* context, uint32_t stream, size_t* dropped);
  int (*timestamp)(uint64_t* now);
  int (*register_clock)(cupti_clock clock); /* NULL before CUDA 11.6 */
  int (*version)(uint32_t* version);
  int (*finalize)(void);
};

#endif
