/* What a training process writes for lockstep to read: one file a writer, a ring of fixed-size
 * records.
 *
 * The file is `wire-<pid>.ring` (host-, cuda- and nccl-<pid>.ring of the probes of these names) in
 * the folder that LOCKSTEP_PROBE_FOLDER names, else in $XDG_RUNTIME_DIR/lockstep, else in the 0700
 * folder lockstep-<uid> of the temporary folder, mapped shared. All numbers are little-endian.
 * Numbers of kinds, spans and flags are never reused; readers skip kinds that they do not know.
 * probes/python/lockstep_probe/wire.py says the same in Python. docs/formats/wire.md has the
 * promises. */
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
#define LOCKSTEP_WIRE_SLOTS 1024U /* of a writer that marks steps: 256 KiB */
#define LOCKSTEP_WIRE_PROBE_SLOTS \
  4096U /* of a probe: 1 MiB holds 0.2 s of the busiest step seen (20,000 spans a second) */
#define LOCKSTEP_WIRE_MOST_SLOTS 65536U /* a power of two up to here */
#define LOCKSTEP_WIRE_SPANS 16U         /* room for kinds of time to come */

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

enum lockstep_record_kind {
  LOCKSTEP_RECORD_STEP = 1, /* a step whose parts the writer summed up itself: lockstep-train */
  LOCKSTEP_RECORD_SPAN =
      2, /* one piece of work, with its place in the source; the reader makes steps of them */
  LOCKSTEP_RECORD_SAMPLE = 3, /* where the training thread was at one moment */
  LOCKSTEP_RECORD_FACT = 4,   /* a setting or a count in words: `name key=value key=value` */
  LOCKSTEP_RECORD_DEVICE =
      5, /* up to ten things that GPUs did, or waits for them: size says how many */
  LOCKSTEP_RECORD_NAME =
      6, /* what a kernel is called; written before the first row that says its number */
  LOCKSTEP_RECORD_COLLECTIVE = 7 /* one rank's part in one collective */
};

/* One training step of one rank, written at its end. */
struct lockstep_step {
  int64_t index;
  uint64_t end_ns; /* CLOCK_MONOTONIC */
  uint64_t duration_ns;
  int32_t rank;
  uint32_t spans_known; /* bit i: span i was measured */
  uint64_t span_ns[LOCKSTEP_WIRE_SPANS];
};

enum lockstep_span_flag {
  LOCKSTEP_FLAG_STEP_END = 1,       /* a step ends where this span does */
  LOCKSTEP_FLAG_NO_TRAINING = 2,    /* a forward pass in evaluation mode or without gradients */
  LOCKSTEP_FLAG_SYNCS = 4,          /* a pass whose gradients are all-reduced */
  LOCKSTEP_FLAG_ON_DEVICE = 8,      /* of a tensor that lies on a GPU */
  LOCKSTEP_FLAG_PAGEABLE = 16,      /* a copy from memory that is not pinned */
  LOCKSTEP_FLAG_BLOCKING = 32,      /* a copy without non_blocking */
  LOCKSTEP_FLAG_IN_WORKER = 64,     /* by a worker of a data loader, not by the rank itself */
  LOCKSTEP_FLAG_OTHER_THREAD = 128, /* beside the training thread: takes none of its time */
  LOCKSTEP_FLAG_SUMMED = 256, /* `count` short pieces between begin and end, busy_ns together */
  LOCKSTEP_FLAG_GPU_IDLE =
      512, /* no work of the rank but the GPU's: it had nothing to do meanwhile */
  LOCKSTEP_FLAG_AUTOGRAD = 1024 /* on a thread that computes a backward pass */
};

/* Strings end at the first 0 or at the field's end; of a long path the end is kept. */
struct lockstep_span_record {
  uint64_t begin_ns; /* CLOCK_MONOTONIC */
  uint64_t end_ns;
  uint64_t busy_ns; /* end - begin, less where SUMMED */
  uint64_t bytes;   /* copied, written; 0: unknown */
  uint64_t subject; /* tells one loader, module or file from another within the process */
  uint32_t count;
  uint32_t part; /* lockstep_span */
  uint32_t flags;
  uint32_t line;
  uint32_t thread;
  uint32_t loop_line; /* of the training loop, where `line` lies in a function below it; 0: it does
                         not, or in another file */
  char what[32];      /* "Tensor.item", "print", "DataLoader" */
  char file[144];
};

struct lockstep_sample {
  uint64_t at_ns;
  uint64_t weight_ns; /* the time since the last look */
  uint32_t line;
  uint32_t loop_line;
  char stack[72]; /* functions below the training loop, innermost first, with '<' between */
  char file[144];
};

enum lockstep_device_kind {
  LOCKSTEP_DEVICE_KERNEL = 0, /* subject: the number of its name */
  LOCKSTEP_DEVICE_COPY = 1, /* subject: CUPTI's numbers of the memory it reads (low byte) and writes
                               (second byte): 1 pageable, 2 pinned, 3 a GPU's */
  LOCKSTEP_DEVICE_SET = 2,
  LOCKSTEP_DEVICE_WAIT =
      3, /* of the host for the GPU; subject: CUPTI's number of the kind of wait */
  LOCKSTEP_DEVICE_OVERHEAD = 4 /* of the probe itself, on the host */
};

/* What takes longer than 4 s is written in pieces. */
struct lockstep_device_row {
  uint64_t begin_ns; /* CLOCK_MONOTONIC */
  uint32_t duration_ns;
  uint32_t subject;
  uint32_t bytes; /* of a copy: 4 GiB less one stands for more */
  uint16_t stream;
  uint8_t device; /* as the process numbers them */
  uint8_t kind;   /* lockstep_device_kind */
};
#define LOCKSTEP_DEVICE_ROWS 10U

struct lockstep_name {
  uint32_t number;
  char text[236]; /* of a long name the begin */
};

enum lockstep_collective_flag {
  LOCKSTEP_COLLECTIVE_CAPTURED = 1,   /* called once for a graph that runs many times */
  LOCKSTEP_COLLECTIVE_TO_ONE_PEER = 2 /* a send or a receive */
};

/* Two ranks' records of one collective have the same communicator, operation and sequence. */
struct lockstep_collective {
  uint64_t communicator;
  uint64_t sequence;
  uint64_t called_ns;       /* CLOCK_MONOTONIC: the host asked for it */
  uint64_t queued_ns;       /* it was given to the GPU */
  uint64_t device_begin_ns; /* by the GPU's clock, set against the host's; 0: not measured */
  uint64_t device_end_ns;
  uint64_t bytes; /* of the buffer that busbw is counted by; 0: not known */
  int32_t rank;   /* in the communicator */
  int32_t ranks;  /* 0: not known */
  int32_t nodes;  /* 0: not known */
  uint32_t channels;
  uint32_t flags;     /* lockstep_collective_flag */
  int32_t peer;       /* root, or whom it is sent to */
  char operation[24]; /* "AllReduce" */
  char algorithm[16]; /* "RING" */
  char protocol[16];  /* "SIMPLE" */
  char type[16];      /* "ncclFloat32" */
  uint64_t group;     /* calls with the same number become one kernel; 0: not known */
};

struct lockstep_record {
  uint64_t sequence; /* 1 + the record's place in the stream, written last; 0 while the record is
                        being written */
  uint32_t kind;
  uint32_t size; /* bytes of the payload that mean something */
  union {
    struct lockstep_step step;
    struct lockstep_span_record span;
    struct lockstep_sample sample;
    struct lockstep_device_row rows[LOCKSTEP_DEVICE_ROWS];
    struct lockstep_name name;
    struct lockstep_collective collective;
    char fact[240];
    uint8_t bytes[240];
  } payload;
};

enum lockstep_role {
  LOCKSTEP_ROLE_RANK = 0,
  LOCKSTEP_ROLE_WORKER = 1, /* of a data loader; parent_pid is its rank */
  LOCKSTEP_ROLE_HOST = 2,   /* the host probe's ring of a process */
  LOCKSTEP_ROLE_CUDA = 3,
  LOCKSTEP_ROLE_NCCL = 4
};
#define LOCKSTEP_ROLES 5U

enum lockstep_wire_flag {
  LOCKSTEP_WIRE_UNORDERED = 1 /* the writer has no store barriers (Python): take a record at the
                                 look after the one that counted it */
};

struct lockstep_wire_header {
  uint64_t magic;
  uint32_t version;
  uint32_t header_bytes;
  uint32_t record_bytes;
  uint32_t slots;
  int32_t pid;
  uint32_t flags;      /* lockstep_wire_flag */
  uint64_t started_ns; /* CLOCK_MONOTONIC when the ring was made */
  uint64_t written;    /* records written since; the writer alone changes it */
  int32_t rank_plus_1; /* 0: not known */
  int32_t world_size;  /* 0: not known */
  uint32_t role;       /* lockstep_role */
  int32_t parent_pid;
  uint8_t room[192];
};

LOCKSTEP_WIRE_ASSERT(sizeof(struct lockstep_step) == 160, "the wire's step has a fixed size");
LOCKSTEP_WIRE_ASSERT(sizeof(struct lockstep_span_record) == 240,
                     "the wire's span has a fixed size");
LOCKSTEP_WIRE_ASSERT(sizeof(struct lockstep_sample) == 240, "the wire's sample has a fixed size");
LOCKSTEP_WIRE_ASSERT(sizeof(struct lockstep_device_row) == 24,
                     "the wire's device rows have a fixed size");
LOCKSTEP_WIRE_ASSERT(sizeof(struct lockstep_name) == 240, "the wire's names have a fixed size");
LOCKSTEP_WIRE_ASSERT(sizeof(struct lockstep_collective) == 160,
                     "the wire's collectives have a fixed size");
LOCKSTEP_WIRE_ASSERT(sizeof(struct lockstep_record) == 256, "the wire's records have a fixed size");
LOCKSTEP_WIRE_ASSERT(sizeof(struct lockstep_wire_header) == 256,
                     "the wire's header has a fixed size");

/* The header, then the records. */
static inline uint64_t lockstep_wire_bytes(uint32_t slots) {
  return sizeof(struct lockstep_wire_header) + slots * sizeof(struct lockstep_record);
}

#ifdef __cplusplus
}
#endif
#endif
