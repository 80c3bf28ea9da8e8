/* What a training process writes for lockstep to read: one file a process, a ring of fixed-size records.
 *
 * The file is `wire-<pid>.ring` in $XDG_RUNTIME_DIR/lockstep, else in the 0700 folder lockstep-<uid> of the temporary
 * folder, mapped shared. All numbers are little-endian. Numbers of kinds and spans are never reused; readers skip kinds
 * that they do not know. docs/formats/wire.md has the promises. */
#ifndef LOCKSTEP_WIRE_H
#define LOCKSTEP_WIRE_H

#include <stdint.h>

#ifdef __cplusplus
#define LOCKSTEP_WIRE_ASSERT(condition, words) static_assert(condition, words)
extern "C" {
#else
#define LOCKSTEP_WIRE_ASSERT(condition, words) _Static_assert(condition, words)
#endif

#define LOCKSTEP_WIRE_MAGIC 0x3152574b434f4cULL /* "LOCKWR1" */
#define LOCKSTEP_WIRE_VERSION 1U
#define LOCKSTEP_WIRE_SLOTS 1024U /* a power of two; 256 KiB a process, pages that were never used cost nothing */
#define LOCKSTEP_WIRE_SPANS 16U   /* room for kinds of time to come */

/* The spans of a step, in the order of a recording's spans_ms. */
enum lockstep_span {
  LOCKSTEP_SPAN_DATA_WAIT = 0,
  LOCKSTEP_SPAN_COPY = 1,
  LOCKSTEP_SPAN_FORWARD = 2,
  LOCKSTEP_SPAN_BACKWARD = 3,
  LOCKSTEP_SPAN_COLLECTIVE_EXPOSED = 4,
  LOCKSTEP_SPAN_COLLECTIVE_HIDDEN = 5,
  LOCKSTEP_SPAN_OPTIMIZER = 6,
  LOCKSTEP_SPAN_SYNC = 7,
  LOCKSTEP_SPAN_LOGGING = 8,
  LOCKSTEP_SPAN_CHECKPOINT = 9,
  LOCKSTEP_SPAN_EVALUATION = 10,
  LOCKSTEP_SPAN_GC = 11,
  LOCKSTEP_SPAN_OTHER = 12
};

enum lockstep_record_kind { LOCKSTEP_RECORD_STEP = 1 };

/* One training step of one rank, written at its end. */
struct lockstep_step {
  int64_t index;
  uint64_t end_ns;      /* CLOCK_MONOTONIC */
  uint64_t duration_ns;
  int32_t rank;
  uint32_t spans_known; /* bit i: span i was measured */
  uint64_t span_ns[LOCKSTEP_WIRE_SPANS];
};

struct lockstep_record {
  uint64_t sequence; /* 1 + the record's place in the stream, written last; 0 while the record is being written */
  uint32_t kind;
  uint32_t size;     /* bytes of the payload that mean something */
  union {
    struct lockstep_step step;
    uint8_t bytes[240];
  } payload;
};

struct lockstep_wire_header {
  uint64_t magic;
  uint32_t version;
  uint32_t header_bytes;
  uint32_t record_bytes;
  uint32_t slots;
  int32_t pid;
  uint32_t reserved;
  uint64_t started_ns;  /* CLOCK_MONOTONIC when the ring was made */
  uint64_t written;     /* records written since; the writer alone changes it */
  uint8_t room[208];
};

struct lockstep_wire {
  struct lockstep_wire_header header;
  struct lockstep_record records[LOCKSTEP_WIRE_SLOTS];
};

LOCKSTEP_WIRE_ASSERT(sizeof(struct lockstep_step) == 160, "the wire's step has a fixed size");
LOCKSTEP_WIRE_ASSERT(sizeof(struct lockstep_record) == 256, "the wire's records have a fixed size");
LOCKSTEP_WIRE_ASSERT(sizeof(struct lockstep_wire_header) == 256, "the wire's header has a fixed size");
LOCKSTEP_WIRE_ASSERT(sizeof(struct lockstep_wire) == 256 + 256 * LOCKSTEP_WIRE_SLOTS, "the wire has no gaps");

#ifdef __cplusplus
}
#endif
#endif
