/* A CUPTI without a GPU, with CUPTI's own interface: the records are those that a test asks for.
 *
 * Loaded under the name libcupti.so.99 beside a program that then loads the CUDA probe as the
 * driver would. Records have CUDA 13's sizes. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "probes/cuda/cupti_abi.h"

enum {
  KERNEL_BYTES = 216,
  MEMCPY_BYTES = 96,
  MEMSET_BYTES = 88,
  WAIT_BYTES = 48,
  OVERHEAD_BYTES = 56
};

static cupti_buffer_requested requested;
static cupti_buffer_completed completed;
static cupti_clock clock_of_client;
static uint64_t enabled_kinds;
static uint8_t* buffer;
static size_t buffer_size;
static size_t used;
static size_t dropped;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static size_t bytes_of(uint32_t kind) {
  switch (kind) {
    case CUPTI_KIND_CONCURRENT_KERNEL:
      return KERNEL_BYTES;
    case CUPTI_KIND_MEMCPY:
      return MEMCPY_BYTES;
    case CUPTI_KIND_MEMSET:
      return MEMSET_BYTES;
    case CUPTI_KIND_SYNCHRONIZATION:
      return WAIT_BYTES;
    default:
      return OVERHEAD_BYTES;
  }
}

static void hand_over(void) {
  if (buffer == NULL || completed == NULL) return;
  uint8_t* const full = buffer;
  buffer = NULL;
  completed(NULL, 0, full, buffer_size, used);
  used = 0;
}

static void* room_for(uint32_t kind) {
  if ((enabled_kinds >> kind & 1U) == 0) return NULL;
  const size_t bytes = bytes_of(kind);
  if (buffer != NULL && used + bytes > buffer_size) hand_over();
  if (buffer == NULL) {
    size_t most = 0;
    requested(&buffer, &buffer_size, &most);
    if (buffer == NULL) {
      ++dropped;
      return NULL;
    }
    memset(buffer, 0xEE, buffer_size);
    used = 0;
  }
  void* const record = buffer + used;
  memset(record, 0, bytes);
  used += bytes;
  ((struct cupti_activity*)record)->kind = kind;
  return record;
}

int cuptiActivityRegisterCallbacks(cupti_buffer_requested give, cupti_buffer_completed take) {
  requested = give;
  completed = take;
  return CUPTI_OK;
}
int cuptiActivityEnable(uint32_t kind) {
  enabled_kinds |= 1ULL << kind;
  return CUPTI_OK;
}
int cuptiActivityDisable(uint32_t kind) {
  enabled_kinds &= ~(1ULL << kind);
  return CUPTI_OK;
}
int cuptiActivityFlushAll(uint32_t flags) {
  (void)flags;
  pthread_mutex_lock(&mutex);
  hand_over();
  pthread_mutex_unlock(&mutex);
  return CUPTI_OK;
}
int cuptiActivityGetNextRecord(uint8_t* from, size_t valid, struct cupti_activity** record) {
  uint8_t* const next = *record == NULL ? from : (uint8_t*)*record + bytes_of((*record)->kind);
  if (next >= from + valid) return CUPTI_NO_MORE_RECORDS;
  *record = (struct cupti_activity*)(void*)next;
  return CUPTI_OK;
}
int cuptiActivityGetNumDroppedRecords(void* context, uint32_t stream, size_t* count) {
  (void)context;
  (void)stream;
  *count = dropped;
  dropped = 0;
  return CUPTI_OK;
}
int cuptiGetTimestamp(uint64_t* now) {
  *now = 12345;
  return CUPTI_OK;
}
int cuptiActivityRegisterTimestampCallback(cupti_clock clock) {
  clock_of_client = clock;
  return CUPTI_OK;
}

int cuptiGetVersion(uint32_t* version) {
  *version = 130000;
  return CUPTI_OK;
}
static unsigned finalized;
/* What it holds is gone, as CUPTI's is: what runs still must have been waited for and flushed. */
int cuptiFinalize(void) {
  pthread_mutex_lock(&mutex);
  requested = NULL;
  completed = NULL;
  clock_of_client = NULL;
  enabled_kinds = 0;
  buffer = NULL;
  ++finalized;
  pthread_mutex_unlock(&mutex);
  return CUPTI_OK;
}

/* For tests. */
unsigned fake_cupti_finalized(void) { return finalized; }
uint64_t fake_cupti_now(void) { return clock_of_client != NULL ? clock_of_client() : 0; }
uint64_t fake_cupti_enabled(void) { return enabled_kinds; }

void fake_cupti_kernel(uint64_t start, uint64_t end, uint32_t device, uint32_t stream,
                       const char* name) {
  pthread_mutex_lock(&mutex);
  struct cupti_kernel* const kernel = room_for(CUPTI_KIND_CONCURRENT_KERNEL);
  if (kernel != NULL) {
    kernel->start = start;
    kernel->end = end;
    kernel->device = device;
    kernel->stream = stream;
    kernel->name = name;
  }
  pthread_mutex_unlock(&mutex);
}

void fake_cupti_copy(uint64_t start, uint64_t end, uint8_t source, uint8_t target, uint64_t bytes) {
  pthread_mutex_lock(&mutex);
  struct cupti_memcpy* const copy = room_for(CUPTI_KIND_MEMCPY);
  if (copy != NULL) {
    copy->start = start;
    copy->end = end;
    copy->source_kind = source;
    copy->target_kind = target;
    copy->bytes = bytes;
    copy->stream = 7;
  }
  pthread_mutex_unlock(&mutex);
}

void fake_cupti_wait(uint64_t start, uint64_t end) {
  pthread_mutex_lock(&mutex);
  struct cupti_synchronization* const wait = room_for(CUPTI_KIND_SYNCHRONIZATION);
  if (wait != NULL) {
    wait->start = start;
    wait->end = end;
    wait->type = 3;
  }
  pthread_mutex_unlock(&mutex);
}
