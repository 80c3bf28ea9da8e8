/* Loaded by NCCL as its profiler plugin (NCCL_PROFILER_PLUGIN): when each rank came to each
 * collective, how large it was, how it was done.
 *
 * NCCL looks for the newest version that it knows, so all are exported. There is one plugin only:
 * the user's own, where one was set, is loaded here and handed everything that it asks for. On the
 * host's side a collective costs two reads of the clock and 256 bytes of stores. Times of the GPU
 * (KernelCh) make NCCL's proxy thread poll, so they are asked for half a second in fifteen, not at
 * all where the CUDA probe sees kernels, nor with NCCL 2.31.2, whose users report it dear (nccl
 * issue 2355).
 *
 * A communicator of one rank makes no events: NCCL returns before. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>

#include "nccl_profiler_abi.h"
#include "probes/wire/ring_file.h"

#define SLOTS 4096U
#define EVENTS 16384U /* a power of two, below 2^16 */
#define TRIES 64U     /* places that are looked at for one that is free */
#define COMMUNICATORS 1024U
#define HOST_MASK \
  (NCCL_EVENT_COLL | NCCL_EVENT_P2P | NCCL_EVENT_COLL_API | NCCL_EVENT_P2P_API | NCCL_EVENT_CE_COLL)
#define DEVICE_TIMES_EVERY_NS 15000000000ULL
#define DEVICE_TIMES_FOR_NS 500000000ULL
#define CLOCK_WINDOW_NS \
  5000000000ULL /* the GPU's clock and the host's drift apart by some microseconds a second */

/* A communicator. */
struct communicator {
  uint64_t hash;
  int32_t rank;
  int32_t ranks; /* 0: versions below 4 do not say */
  int32_t nodes;
  int* mask;
  void* their_context;
};

/* NCCL holds handles for longer than events last (a graph's calls, at each of its runs), so a
 * handle is a place and the number of its use, not an address. */
struct event {
  _Atomic uint64_t use; /* how often the place was taken */
  _Atomic int open;     /* begun and not stopped: the place is not free */
  const struct communicator* communicator;
  int kind;     /* nccl_event */
  void* parent; /* the handle of what is around it */
  uint64_t begin_ns;
  struct lockstep_collective said;
  _Atomic int channels_open;
  void* theirs;
  uint64_t timer;
};

static struct lockstep_wire_header* ring;
static struct event* events;
static _Atomic uint64_t next_event;
static struct communicator* communicators[COMMUNICATORS];
static _Atomic unsigned communicator_count;
static int asks_for_device_times;
static _Atomic uint64_t started_ns;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static struct {
  void* library;
  const struct nccl_profiler_v1* of[7]; /* by version; their layouts begin alike */
  int mask;
} theirs;

static int is_nccl(struct dl_phdr_info* info, size_t size, void* found) {
  (void)size;
  if (info->dlpi_name == NULL || strstr(info->dlpi_name, "libnccl.so") == NULL) return 0;
  snprintf(found, 400, "%s", info->dlpi_name);
  return 1;
}

static int nccl_version(void) {
  char path[400] = "";
  int version = 0;
  dl_iterate_phdr(is_nccl, path);
  void* const library = *path != '\0' ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
  int (*get_version)(int*) = NULL;
  if (library != NULL) *(void**)&get_version = dlsym(library, "ncclGetVersion");
  if (get_version != NULL) get_version(&version);
  return version;
}

static void load_theirs(void) {
  const char* const name = getenv("LOCKSTEP_NCCL_PROFILER_PLUGIN");
  if (name == NULL || *name == '\0' || strcasecmp(name, "none") == 0) return;
  char path[512];
  snprintf(path, sizeof path, "libnccl-profiler-%s.so", name);
  theirs.library = dlopen(name, RTLD_NOW);
  if (theirs.library == NULL) theirs.library = dlopen(path, RTLD_NOW);
  if (theirs.library == NULL) {
    lockstep_probe_says("the profiler plugin that NCCL_PROFILER_PLUGIN named could not be loaded: ",
                        name);
    return;
  }
  for (int version = 1; version <= 6; ++version) {
    snprintf(path, sizeof path, "ncclProfiler_v%d", version);
    theirs.of[version] = dlsym(theirs.library, path);
  }
}

static void after_fork(void) { ring = NULL; }

static void end(void) {
  if (ring != NULL) lockstep_ring_remove("nccl");
}

static void begin(void) {
  load_theirs();
  if (!lockstep_probe_wanted("nccl")) return;
  const char* why = "no memory";
  events = calloc(EVENTS, sizeof *events);
  if (events != NULL) ring = lockstep_ring_create("nccl", LOCKSTEP_ROLE_NCCL, SLOTS, &why);
  if (ring == NULL) {
    lockstep_probe_says("the NCCL probe stays out: ", why);
    return;
  }
  started_ns = lockstep_now_ns();
  const int version = nccl_version();
  asks_for_device_times = !lockstep_probe_wanted("cuda");
  if (asks_for_device_times && version == 23102) {
    asks_for_device_times = 0;
    lockstep_probe_says(
        "NCCL 2.31.2 is slow when it times its kernels: the NCCL probe sees the host's side alone",
        "");
  }
  char fact[sizeof((struct lockstep_record*)0)->payload] = "";
  snprintf(fact, sizeof fact, "nccl version=%d", version);
  lockstep_ring_write_shared(ring, LOCKSTEP_RECORD_FACT, fact, (uint32_t)sizeof fact);
  pthread_atfork(NULL, NULL, after_fork);
  atexit(end);
}

static void copy_text(char* field, size_t size, const char* text) {
  snprintf(field, size, "%s", text != NULL ? text : "");
}

static unsigned type_bytes(const char* type) {
  if (strstr(type, "64") != NULL || strcmp(type, "ncclDouble") == 0) return 8;
  if (strstr(type, "float16") != NULL || strstr(type, "Float16") != NULL ||
      strstr(type, "Bfloat16") != NULL || strcmp(type, "ncclHalf") == 0)
    return 2;
  if (strstr(type, "32") != NULL || strcmp(type, "ncclInt") == 0 || strcmp(type, "ncclFloat") == 0)
    return 4;
  return *type == '\0' ? 0 : 1;
}

static const char* one_of(const char* const* names, size_t count, unsigned number) {
  return number < count ? names[number] : "";
}

static void describe_numbers(struct lockstep_collective* said, unsigned func, unsigned type) {
  static const char* const funcs[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                      "AllReduce", "SendRecv", "Send",      "Recv"};
  static const char* const types[] = {"ncclInt8",    "ncclUint8",   "ncclInt32",   "ncclUint32",
                                      "ncclInt64",   "ncclUint64",  "ncclFloat16", "ncclFloat32",
                                      "ncclFloat64", "ncclBfloat16"};
  copy_text(said->operation, sizeof said->operation,
            one_of(funcs, sizeof funcs / sizeof *funcs, func));
  copy_text(said->type, sizeof said->type, one_of(types, sizeof types / sizeof *types, type));
}

static void set_bytes(struct lockstep_collective* said, size_t count) {
  const int gathers =
      strcmp(said->operation, "AllGather") == 0 || strcmp(said->operation, "ReduceScatter") == 0;
  said->bytes = (uint64_t)count * type_bytes(said->type) *
                (gathers && said->ranks > 0 ? (uint64_t)said->ranks : 1);
}

static void describe_collective(struct lockstep_collective* said, int version,
                                const struct nccl_event_descriptor* event) {
  static const char* const algorithms[] = {
      "TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};
  static const char* const protocols[] = {"LL", "LL128", "SIMPLE"};
  const char* algorithm = "";
  const char* protocol = "";
  size_t count = 0;
  if (version == 1) {
    const struct nccl_coll_v1* const of = &event->of.coll_v1;
    said->communicator = of->comm_hash;
    said->sequence = of->sequence;
    describe_numbers(said, of->func, of->datatype);
    algorithm = one_of(algorithms, sizeof algorithms / sizeof *algorithms, of->algo);
    protocol = one_of(protocols, sizeof protocols / sizeof *protocols, of->proto);
    said->channels = of->channels;
    said->peer = of->root;
    count = of->count;
  } else if (version <= 3) {
    const struct nccl_coll_v2* const of =
        &event->of.coll_v2; /* version 3 is the same up to the type */
    said->communicator = of->comm_hash;
    said->sequence = of->sequence;
    copy_text(said->operation, sizeof said->operation, of->func);
    copy_text(said->type, sizeof said->type, of->datatype);
    algorithm = version == 2 ? of->algo : event->of.coll_v3.algo;
    protocol = version == 2 ? of->proto : event->of.coll_v3.proto;
    said->channels = version == 2 ? of->channels : event->of.coll_v3.channels;
    said->peer = of->root;
    count = of->count;
  } else {
    const struct nccl_coll_v4* const of = &event->of.coll_v4;
    said->sequence = of->sequence;
    copy_text(said->operation, sizeof said->operation, of->func);
    copy_text(said->type, sizeof said->type, of->datatype);
    algorithm = of->algo;
    protocol = of->proto;
    said->channels = of->channels;
    said->peer = of->root;
    count = of->count;
  }
  copy_text(said->algorithm, sizeof said->algorithm, algorithm);
  copy_text(said->protocol, sizeof said->protocol, protocol);
  set_bytes(said, count);
}

static void describe_peer(struct lockstep_collective* said, int version,
                          const struct nccl_event_descriptor* event) {
  size_t count = 0;
  said->flags |= LOCKSTEP_COLLECTIVE_TO_ONE_PEER;
  if (version == 1) {
    const struct nccl_p2p_v1* const of = &event->of.p2p_v1;
    said->communicator = of->comm_hash;
    describe_numbers(said, of->func, of->datatype);
    said->peer = of->peer;
    count = of->count;
  } else if (version <= 3) {
    const struct nccl_p2p_v2* const of = &event->of.p2p_v2;
    said->communicator = of->comm_hash;
    copy_text(said->operation, sizeof said->operation, of->func);
    copy_text(said->type, sizeof said->type, of->datatype);
    said->peer = of->peer;
    count = of->count;
  } else {
    const struct nccl_p2p_v4* const of = &event->of.p2p_v4;
    copy_text(said->operation, sizeof said->operation, of->func);
    copy_text(said->type, sizeof said->type, of->datatype);
    said->peer = of->peer;
    count = of->count;
  }
  set_bytes(said, count);
}

static void write_collective(const struct lockstep_collective* said) {
  if (ring != NULL)
    lockstep_ring_write_shared(ring, LOCKSTEP_RECORD_COLLECTIVE, said, (uint32_t)sizeof *said);
}

/* Half a second in fifteen. NCCL reads the mask whenever a collective begins. */
static void choose_mask(const struct communicator* communicator, uint64_t now) {
  if (!asks_for_device_times || communicator->mask == NULL) return;
  const int on = (now - started_ns) % DEVICE_TIMES_EVERY_NS < DEVICE_TIMES_FOR_NS;
  const int mask = __atomic_load_n(communicator->mask, __ATOMIC_RELAXED);
  const int wanted =
      on ? mask | NCCL_EVENT_KERNEL_CH : mask & ~(NCCL_EVENT_KERNEL_CH & ~theirs.mask);
  if (mask != wanted) __atomic_store_n(communicator->mask, wanted, __ATOMIC_RELAXED);
}

/* What the GPU's timer must be moved by. A timer's value reaches us late and never early: the least
 * difference is the clocks'. */
static uint64_t on_host_clock(uint64_t timer) {
  static _Atomic int64_t least[2] = {
      INT64_MAX, INT64_MAX}; /* of this stretch of time, and of the one before */
  static _Atomic uint64_t stretch;
  const uint64_t now = lockstep_now_ns();
  const int64_t difference = (int64_t)(now - timer);
  uint64_t current = stretch;
  if (now / CLOCK_WINDOW_NS != current &&
      atomic_compare_exchange_strong(&stretch, &current, now / CLOCK_WINDOW_NS)) {
    least[1] = least[0];
    least[0] = difference;
  }
  if (difference < least[0]) least[0] = difference;
  return timer + (uint64_t)(least[0] < least[1] ? least[0] : least[1]);
}

/* NULL: not ours, or its place was given to another since. */
static struct event* event_of(void* handle) {
  const uintptr_t value = (uintptr_t)handle;
  const uintptr_t place = value & 0xFFFF;
  if (value == 0 || place == 0 || place > EVENTS || events == NULL) return NULL;
  struct event* const found = &events[place - 1];
  return (uintptr_t)found->use == value >> 16 ? found : NULL;
}

static void* handle_of(const struct event* event) {
  return (void*)((uintptr_t)event->use << 16 | ((uintptr_t)(event - events) + 1));
}

/* A proxy that works for another process (PXN) hands us that process's pointers. */
static int is_ours(const void* context) {
  const unsigned count = communicator_count < COMMUNICATORS ? communicator_count : COMMUNICATORS;
  for (unsigned i = 0; i < count; ++i)
    if (communicators[i] == context) return 1;
  return 0;
}

static int init(void** context, int version, uint64_t hash, int* mask, const char* name, int nodes,
                int ranks, int rank, nccl_logger log) {
  pthread_once(&once, begin);
  struct communicator* const made = calloc(1, sizeof *made);
  if (made == NULL) return NCCL_OK;
  made->hash = hash;
  made->rank = rank;
  made->ranks = ranks;
  made->nodes = nodes;
  made->mask = mask;
  const struct nccl_profiler_v1* const their = theirs.of[version];
  /* All communicators share one mask: theirs must not find our bits in it, nor we take them for
   * theirs. */
  const int before = mask != NULL ? *mask : 0;
  if (their != NULL) {
    int failed = 0;
    if (mask != NULL) *mask = theirs.mask;
    if (version >= 5)
      failed = ((const struct nccl_profiler_v5*)(const void*)their)
                   ->init(&made->their_context, hash, mask, name, nodes, ranks, rank, log);
    else if (version == 4)
      failed = ((const struct nccl_profiler_v4*)(const void*)their)
                   ->init(&made->their_context, mask, name, hash, nodes, ranks, rank, log);
    else
      failed = their->init(&made->their_context, mask);
    if (failed != NCCL_OK)
      theirs.of[version] = NULL;
    else
      theirs.mask |= mask != NULL ? *mask : 0;
  } else if (theirs.library != NULL) {
    lockstep_probe_says(
        "the profiler plugin that NCCL_PROFILER_PLUGIN named does not speak this NCCL's version; "
        "run with --probe host,python,cuda to have it alone",
        "");
  }
  if (mask != NULL) *mask |= before | (ring != NULL ? HOST_MASK : 0);
  const unsigned place = atomic_fetch_add(&communicator_count, 1);
  if (place >= COMMUNICATORS) {
    free(made);
    return NCCL_OK;
  }
  communicators[place] = made;
  *context = made;
  return NCCL_OK;
}

/* The oldest place that is free; NULL where those that come next are all open. */
static struct event* new_event(const struct communicator* communicator, int kind) {
  for (unsigned tried = 0; tried < TRIES; ++tried) {
    struct event* const made = &events[atomic_fetch_add(&next_event, 1) & (EVENTS - 1)];
    int expected = 0;
    if (!atomic_compare_exchange_strong(&made->open, &expected, 1)) continue;
    ++made->use;
    made->communicator = communicator;
    made->kind = kind;
    made->parent = NULL;
    made->channels_open = 0;
    made->theirs = NULL;
    made->timer = 0;
    memset(&made->said, 0, sizeof made->said);
    made->begin_ns = lockstep_now_ns();
    made->said.communicator = communicator->hash;
    made->said.rank = communicator->rank;
    made->said.ranks = communicator->ranks;
    made->said.nodes = communicator->nodes;
    return made;
  }
  return NULL;
}

static void* theirs_of(void* handle) {
  const struct event* const event = event_of(handle);
  return event != NULL ? event->theirs : NULL;
}

static int start_event(void* context, void** handle, struct nccl_event_descriptor* event,
                       int version) {
  const struct communicator* const communicator = context;
  *handle = NULL;
  const int kind = version >= 5 ? (int)event->type : (int)(uint8_t)event->type;
  if (communicator == NULL || events == NULL || !is_ours(context)) return NCCL_OK;
  struct event* const made = new_event(communicator, kind);
  if (made == NULL) return NCCL_OK;
  struct event* const parent = event_of(event->parent);
  switch (kind) {
    case NCCL_EVENT_GROUP_API:
      choose_mask(communicator, made->begin_ns);
      break;
    case NCCL_EVENT_GROUP:
      if (version < 5) choose_mask(communicator, made->begin_ns);
      break;
    case NCCL_EVENT_COLL_API:
      if (event->of.coll_api.captured != 0) made->said.flags |= LOCKSTEP_COLLECTIVE_CAPTURED;
      break;
    case NCCL_EVENT_P2P_API:
      if (event->of.p2p_api.captured != 0) made->said.flags |= LOCKSTEP_COLLECTIVE_CAPTURED;
      break;
    case NCCL_EVENT_COLL:
    case NCCL_EVENT_CE_COLL:
    case NCCL_EVENT_P2P:
      if (kind == NCCL_EVENT_COLL)
        describe_collective(&made->said, version, event);
      else if (kind == NCCL_EVENT_P2P)
        describe_peer(&made->said, version, event);
      else {
        made->said.sequence = event->of.ce_coll.sequence;
        copy_text(made->said.operation, sizeof made->said.operation, event->of.ce_coll.func);
        copy_text(made->said.type, sizeof made->said.type, event->of.ce_coll.datatype);
        copy_text(made->said.algorithm, sizeof made->said.algorithm, "COPY_ENGINE");
        set_bytes(&made->said, event->of.ce_coll.count);
      }
      if (version < 4) made->said.rank = event->rank;
      made->said.called_ns = made->begin_ns;
      if (kind == NCCL_EVENT_COLL)
        made->said.group =
            (uint64_t)(uintptr_t)(version >= 5 ? event->of.coll_v4.parent_group : event->parent);
      if (version >= 5 && parent != NULL &&
          (parent->kind == NCCL_EVENT_COLL_API ||
           parent->kind ==
               NCCL_EVENT_P2P_API)) { /* the call itself, which may lie some way before */
        made->said.called_ns = parent->begin_ns;
        made->said.flags |= parent->said.flags;
      }
      break;
    case NCCL_EVENT_KERNEL_CH:
      made->parent = event->parent;
      if (version >= 4) made->timer = event->of.kernel_ch.timer;
      if (parent != NULL) atomic_fetch_add(&parent->channels_open, 1);
      break;
    default:
      break;
  }
  const struct nccl_profiler_v1* const their = theirs.of[version];
  const int is_around = kind == NCCL_EVENT_GROUP || kind == NCCL_EVENT_GROUP_API ||
                        kind == NCCL_EVENT_COLL_API || kind == NCCL_EVENT_P2P_API;
  if (their != NULL && communicator->their_context != NULL &&
      ((kind & theirs.mask) != 0 || (is_around && theirs.mask != 0))) {
    struct nccl_event_descriptor copy;
    static const size_t union_bytes[] = {0, 96, 104, 96, 80, 88, 88}; /* by version */
    memcpy(&copy, event, offsetof(struct nccl_event_descriptor, of) + union_bytes[version]);
    copy.parent = theirs_of(event->parent);
    if (version >= 5 && kind == NCCL_EVENT_COLL)
      copy.of.coll_v4.parent_group = theirs_of(copy.of.coll_v4.parent_group);
    if (version >= 5 && kind == NCCL_EVENT_P2P)
      copy.of.p2p_v4.parent_group = theirs_of(copy.of.p2p_v4.parent_group);
    their->start_event(communicator->their_context, &made->theirs, &copy);
  }
  *handle = handle_of(made);
  return NCCL_OK;
}

static void end_channel(const struct event* channel, uint64_t timer) {
  struct event* const of = event_of(channel->parent);
  if (of == NULL || channel->timer == 0 || timer < channel->timer) return;
  const uint64_t first = on_host_clock(channel->timer);
  const uint64_t last = first + (timer - channel->timer);
  if (of->said.device_begin_ns == 0 || first < of->said.device_begin_ns)
    of->said.device_begin_ns = first;
  if (last > of->said.device_end_ns) of->said.device_end_ns = last;
}

static int stop_event(void* handle, int version) {
  struct event* const event = event_of(handle);
  if (event == NULL) return NCCL_OK;
  if (event->kind == NCCL_EVENT_COLL || event->kind == NCCL_EVENT_P2P ||
      event->kind == NCCL_EVENT_CE_COLL) { /* given to the GPU, not done */
    event->said.queued_ns = lockstep_now_ns();
    write_collective(&event->said);
  } else if (event->kind == NCCL_EVENT_KERNEL_CH) {
    /* The record once more, now with the GPU's times: the newer one counts. */
    struct event* const of = event_of(event->parent);
    if (of != NULL && atomic_fetch_sub(&of->channels_open, 1) == 1 && of->said.device_end_ns != 0)
      write_collective(&of->said);
  }
  if (event->theirs != NULL && theirs.of[version] != NULL && event->open)
    theirs.of[version]->stop_event(event->theirs);
  event->open = 0; /* free, and what was said of it stands until another takes the place */
  return NCCL_OK;
}

static int record_state(void* handle, int state, union nccl_state_arguments* arguments,
                        int version) {
  struct event* const event = event_of(handle);
  if (event == NULL) return NCCL_OK;
  if (event->kind == NCCL_EVENT_KERNEL_CH && state == NCCL_STATE_KERNEL_CH_STOP && version >= 4 &&
      arguments != NULL)
    end_channel(event, arguments->kernel_ch.timer);
  if (event->theirs != NULL && theirs.of[version] != NULL)
    theirs.of[version]->record_state(event->theirs, state, arguments);
  return NCCL_OK;
}

static int finalize(void* context, int version) {
  struct communicator* const communicator = context;
  if (communicator == NULL) return NCCL_OK;
  if (theirs.of[version] != NULL && communicator->their_context != NULL)
    theirs.of[version]->finalize(communicator->their_context);
  /* Not freed: the proxy thread may still hold one of its events. Some bytes a communicator. */
  communicator->mask = NULL;
  return NCCL_OK;
}

static int init_1(void** context, int* mask) {
  return init(context, 1, 0, mask, NULL, 0, 0, 0, NULL);
}
static int init_2(void** context, int* mask) {
  return init(context, 2, 0, mask, NULL, 0, 0, 0, NULL);
}
static int init_3(void** context, int* mask) {
  return init(context, 3, 0, mask, NULL, 0, 0, 0, NULL);
}
static int init_4(void** context, int* mask, const char* name, uint64_t hash, int nodes, int ranks,
                  int rank, nccl_logger log) {
  return init(context, 4, hash, mask, name, nodes, ranks, rank, log);
}
static int init_5(void** context, uint64_t id, int* mask, const char* name, int nodes, int ranks,
                  int rank, nccl_logger log) {
  return init(context, 5, id, mask, name, nodes, ranks, rank, log);
}
static int init_6(void** context, uint64_t id, int* mask, const char* name, int nodes, int ranks,
                  int rank, nccl_logger log) {
  return init(context, 6, id, mask, name, nodes, ranks, rank, log);
}

#define CALLS_OF(version)                                                                         \
  static int start_##version(void* context, void** handle, struct nccl_event_descriptor* event) { \
    return start_event(context, handle, event, version);                                          \
  }                                                                                               \
  static int stop_##version(void* handle) { return stop_event(handle, version); }                 \
  static int state_##version(void* handle, int state, union nccl_state_arguments* arguments) {    \
    return record_state(handle, state, arguments, version);                                       \
  }                                                                                               \
  static int finalize_##version(void* context) { return finalize(context, version); }
CALLS_OF(1)
CALLS_OF(2)
CALLS_OF(3)
CALLS_OF(4)
CALLS_OF(5)
CALLS_OF(6)

#define PLUGIN(layout, version)                                                          \
  __attribute__((                                                                        \
      visibility("default"))) struct nccl_profiler_v##layout ncclProfiler_v##version = { \
      "lockstep",     init_##version,  start_##version,                                  \
      stop_##version, state_##version, finalize_##version};
PLUGIN(1, 1)
PLUGIN(1, 2)
PLUGIN(1, 3)
PLUGIN(4, 4)
PLUGIN(5, 5)
PLUGIN(5, 6)
