/* The writing end of the wire's ring: writers that never wait for their readers, of which there may
 * be many.
 *
 * The oldest record is overwritten. A record's sequence number is cleared before and set after its
 * content, so that a reader who was overtaken knows it and counts what it lost. No locks, no calls
 * into the kernel, no allocation: a write is 256 bytes of stores. */
#ifndef LOCKSTEP_RING_H
#define LOCKSTEP_RING_H

#include <string.h>

#include "lockstep_wire.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A ring in zeroed memory of lockstep_wire_bytes(slots). The magic goes last: readers look for it.
 */
static inline void lockstep_ring_open(struct lockstep_wire_header* wire, uint32_t slots,
                                      int32_t pid, uint64_t now_ns) {
  wire->version = LOCKSTEP_WIRE_VERSION;
  wire->header_bytes = (uint32_t)sizeof(struct lockstep_wire_header);
  wire->record_bytes = (uint32_t)sizeof(struct lockstep_record);
  wire->slots = slots;
  wire->pid = pid;
  wire->started_ns = now_ns;
  __atomic_store_n(&wire->magic, LOCKSTEP_WIRE_MAGIC, __ATOMIC_RELEASE);
}

static inline struct lockstep_record* lockstep_ring_slot(struct lockstep_wire_header* wire,
                                                         uint64_t place) {
  return (struct lockstep_record*)(void*)((uint8_t*)wire + sizeof *wire +
                                          (place & (wire->slots - 1)) *
                                              sizeof(struct lockstep_record));
}

static inline void lockstep_ring_fill(struct lockstep_record* record, uint64_t place, uint32_t kind,
                                      const void* payload, uint32_t size) {
  __atomic_store_n(&record->sequence, 0, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_RELEASE); /* no store below may be seen before the 0 */
  if (size > sizeof record->payload) size = (uint32_t)sizeof record->payload;
  record->kind = kind;
  record->size = size;
  memcpy(&record->payload, payload, size);
  __atomic_store_n(&record->sequence, place + 1, __ATOMIC_RELEASE);
}

/* Of one writing thread. */
static inline void lockstep_ring_write(struct lockstep_wire_header* wire, uint32_t kind,
                                       const void* payload, uint32_t size) {
  const uint64_t place = wire->written; /* nobody else changes it */
  lockstep_ring_fill(lockstep_ring_slot(wire, place), place, kind, payload, size);
  __atomic_store_n(&wire->written, place + 1, __ATOMIC_RELEASE);
}

/* Of many writing threads: each claims a place. A reader may see the count before the record, and
 * waits for its number. */
static inline void lockstep_ring_write_shared(struct lockstep_wire_header* wire, uint32_t kind,
                                              const void* payload, uint32_t size) {
  const uint64_t place = __atomic_fetch_add(&wire->written, 1, __ATOMIC_RELAXED);
  lockstep_ring_fill(lockstep_ring_slot(wire, place), place, kind, payload, size);
}

#ifdef __cplusplus
}
#endif
#endif
