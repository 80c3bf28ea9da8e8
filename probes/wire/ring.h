/* The writing end of the wire's ring: one writer that never waits for its readers, of which there may be many.
 *
 * The oldest record is overwritten. A record's sequence number is cleared before and set after its content, and the count
 * of records goes up last, so that a reader who was overtaken knows it and counts what it lost. No locks, no calls into
 * the kernel, no allocation: a write is 256 bytes of stores. */
#ifndef LOCKSTEP_RING_H
#define LOCKSTEP_RING_H

#include <string.h>

#include "lockstep_wire.h"

#ifdef __cplusplus
extern "C" {
#endif

static inline void lockstep_ring_write(struct lockstep_wire* wire, uint32_t kind, const void* payload, uint32_t size) {
  const uint64_t place = wire->header.written; /* one writer: nobody else changes it */
  struct lockstep_record* const record = &wire->records[place % LOCKSTEP_WIRE_SLOTS];
  __atomic_store_n(&record->sequence, 0, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_RELEASE); /* no store below may be seen before the 0 */
  if (size > sizeof record->payload) size = (uint32_t)sizeof record->payload;
  record->kind = kind;
  record->size = size;
  memcpy(&record->payload, payload, size);
  __atomic_store_n(&record->sequence, place + 1, __ATOMIC_RELEASE);
  __atomic_store_n(&wire->header.written, place + 1, __ATOMIC_RELEASE);
}

#ifdef __cplusplus
}
#endif
#endif
