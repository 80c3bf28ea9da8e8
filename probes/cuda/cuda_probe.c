/* Loaded by the CUDA driver at its start (CUDA_INJECTION64_PATH): what the GPUs did, by CUPTI's own
 * records.
 *
 * Kernels, copies, fills and the host's waits for the GPU go into the ring, ten to a record; names
 * of kernels once. CUPTI hands buffers over on its own thread or on ours, never on the training
 * thread's way. Nobody else can use CUPTI's records at the same time: when torch.profiler starts,
 * the Python probe calls lockstep_cuda_probe_stop, and this probe is silent from then on.
 *
 * Records make each launch dearer: a step of 700 kernels that the host limits takes 9 to 17 %
 * longer (an H200's; 37 to 45 % where CUPTI tells the host's waits, too, so the host probe tells
 * them where it is loaded). And a process that CUPTI has once recorded stays slower by 16 to 26 %
 * after cuptiActivityDisable; cuptiFinalize gives all of it back and takes 2 ms (tests/recordings/
 * probe_cost.py). So the Python probe, which sees steps, has records on for a few steps at a time
 * (lockstep_cuda_probe_window) and has CUPTI leave the process between them
 * (lockstep_cuda_probe_detach); without steps they stay on.
 *
 * What fails is said once and leaves the process as it was. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "cupti_abi.h"
#include "probes/wire/ring_file.h"

#define SLOTS 32768U /* 8 MiB: two seconds of 160,000 kernels each */
#define BUFFER_BYTES \
  (64U *             \
   1024U) /* some 300 kernels: CUPTI hands a buffer over once it is full and all of it is done */
#define LOOK_NS 100000000L /* flushes what is done, and looks for the sign to stop */
#define MOST_NAMES 16384U  /* a power of two */
#define LONGEST_ROW_NS 4000000000U

static struct cupti_calls cupti;
static struct lockstep_wire_header* ring;
static _Atomic int running;
static int has_own_clock; /* CUPTI asks us for the time: its records are of CLOCK_MONOTONIC */
static _Atomic int64_t clock_offset_ns; /* else: added to its times they are */

/* Under this mutex: the ring's writing end, rows that are not written yet, names. CUPTI may hand
 * over buffers on several threads. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct lockstep_device_row rows[LOCKSTEP_DEVICE_ROWS];
static uint32_t row_count;
static uint64_t lost;

struct known_name {
  const char* pointer; /* CUPTI's own: the same for all records of a kernel */
  uint32_t number;
  char begin[44]; /* of the text, where a library is unloaded and another lies at its place */
};
static struct known_name* names; /* emptied when CUPTI leaves the process: its texts go with it */
static uint32_t name_count;
/* What was said, by its text: the same kernel has another pointer in the next window. */
struct said_name {
  uint64_t hash; /* 0: free */
  uint32_t number;
};
static struct said_name* said_names;
static char* (*demangle)(const char* mangled, char* buffer, size_t* size, int* status);

static uint64_t now_ns(void) { return lockstep_now_ns(); }

static void write_rows(void) {
  if (row_count == 0) return;
  lockstep_ring_write(ring, LOCKSTEP_RECORD_DEVICE, rows, row_count * (uint32_t)sizeof *rows);
  row_count = 0;
}

static void say_fact(const char* text) {
  char fact[sizeof((struct lockstep_record*)0)->payload] = "";
  snprintf(fact, sizeof fact, "%s", text);
  lockstep_ring_write(ring, LOCKSTEP_RECORD_FACT, fact, (uint32_t)sizeof fact);
}

static uint64_t hash_of(const char* text) { /* FNV-1a */
  uint64_t hash = 14695981039346656037ULL;
  for (; *text != '\0'; ++text) hash = (hash ^ (uint8_t)*text) * 1099511628211ULL;
  return hash | 1U;
}

/* 0: crowded, a kernel without a name. */
static uint32_t number_of_text(const char* name) {
  const uint64_t hash = hash_of(name);
  for (uint64_t place = hash >> 8, tried = 0; tried < 32; ++tried, ++place) {
    struct said_name* const said = &said_names[place & (MOST_NAMES - 1)];
    if (said->hash == hash) return said->number;
    if (said->hash != 0) continue;
    struct lockstep_name record;
    memset(&record, 0, sizeof record);
    record.number = ++name_count;
    int status = -1;
    char* const plain = demangle != NULL && strncmp(name, "_Z", 2) == 0
                            ? demangle(name, NULL, NULL, &status)
                            : NULL;
    snprintf(record.text, sizeof record.text, "%s", plain != NULL ? plain : name);
    free(plain);
    lockstep_ring_write(ring, LOCKSTEP_RECORD_NAME, &record, (uint32_t)sizeof record);
    said->hash = hash;
    said->number = record.number;
    return record.number;
  }
  return 0;
}

static uint32_t number_of_name(const char* name) {
  if (name == NULL) return 0;
  uint64_t place = ((uintptr_t)name >> 3) * 0x9E3779B97F4A7C15ULL >> 40;
  for (uint32_t tried = 0; tried < 32; ++tried, ++place) {
    struct known_name* const known = &names[place & (MOST_NAMES - 1)];
    if (known->pointer == name && strncmp(known->begin, name, sizeof known->begin - 1) == 0)
      return known->number;
    if (known->pointer != NULL && known->pointer != name) continue;
    known->pointer = name;
    known->number = number_of_text(name);
    snprintf(known->begin, sizeof known->begin, "%s", name);
    return known->number;
  }
  return number_of_text(name);
}

static void add_row(enum lockstep_device_kind kind, uint64_t start, uint64_t end, uint32_t device,
                    uint32_t stream, uint32_t subject, uint64_t bytes) {
  if (start == 0 || end < start) { /* it was not done when the buffer was taken by force */
    lost += running;               /* at the end nobody waits for what runs on */
    return;
  }
  if (!has_own_clock) {
    start += (uint64_t)clock_offset_ns;
    end += (uint64_t)clock_offset_ns;
  }
  do {
    const uint64_t piece = end - start < LONGEST_ROW_NS ? end - start : LONGEST_ROW_NS;
    const struct lockstep_device_row row = {start,
                                            (uint32_t)piece,
                                            subject,
                                            bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX,
                                            (uint16_t)stream,
                                            (uint8_t)device,
                                            (uint8_t)kind};
    rows[row_count++] = row;
    if (row_count == LOCKSTEP_DEVICE_ROWS) write_rows();
    start += piece;
  } while (start < end);
}

static void add_record(const struct cupti_activity* record) {
  switch (record->kind) {
    case CUPTI_KIND_CONCURRENT_KERNEL: {
      const struct cupti_kernel* const kernel = (const void*)record;
      add_row(LOCKSTEP_DEVICE_KERNEL, kernel->start, kernel->end, kernel->device, kernel->stream,
              number_of_name(kernel->name), 0);
      break;
    }
    case CUPTI_KIND_MEMCPY: {
      const struct cupti_memcpy* const copy = (const void*)record;
      add_row(LOCKSTEP_DEVICE_COPY, copy->start, copy->end, copy->device, copy->stream,
              copy->source_kind | (uint32_t)copy->target_kind << 8, copy->bytes);
      break;
    }
    case CUPTI_KIND_MEMSET: {
      const struct cupti_memset* const fill = (const void*)record;
      add_row(LOCKSTEP_DEVICE_SET, fill->start, fill->end, fill->device, fill->stream, 0,
              fill->bytes);
      break;
    }
    case CUPTI_KIND_SYNCHRONIZATION: {
      const struct cupti_synchronization* const wait = (const void*)record;
      if (wait->type != CUPTI_STREAM_WAITS)
        add_row(LOCKSTEP_DEVICE_WAIT, wait->start, wait->end, 0, wait->stream, wait->type, 0);
      break;
    }
    case CUPTI_KIND_OVERHEAD: {
      const struct cupti_overhead* const overhead = (const void*)record;
      add_row(LOCKSTEP_DEVICE_OVERHEAD, overhead->start, overhead->end, 0, 0,
              overhead->overhead_kind, 0);
      break;
    }
    default:
      break;
  }
}

static void give_buffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *size = 0;
  *most_records = 0;
  *buffer = NULL;
  void* room = NULL;
  if (posix_memalign(&room, 8, BUFFER_BYTES) != 0) return; /* CUPTI drops and counts */
  *buffer = room;
  *size = BUFFER_BYTES;
}

static void take_buffer(void* context, uint32_t stream, uint8_t* buffer, size_t size,
                        size_t valid_size) {
  (void)size;
  if (buffer == NULL) return;
  pthread_mutex_lock(&mutex);
  if (ring != NULL) {
    struct cupti_activity* record = NULL;
    while (cupti.next_record(buffer, valid_size, &record) == CUPTI_OK) add_record(record);
    write_rows();
    size_t dropped = 0;
    if (cupti.dropped_records(context, stream, &dropped) == CUPTI_OK) lost += dropped;
    if (lost > 0) {
      char text[64];
      snprintf(text, sizeof text, "lost records=%llu", (unsigned long long)lost);
      say_fact(text);
      lost = 0;
    }
  }
  pthread_mutex_unlock(&mutex);
  free(buffer);
}

static const uint32_t kinds[] = {CUPTI_KIND_CONCURRENT_KERNEL, CUPTI_KIND_MEMCPY, CUPTI_KIND_MEMSET,
                                 CUPTI_KIND_OVERHEAD, CUPTI_KIND_SYNCHRONIZATION};
static size_t wanted_kinds =
    sizeof kinds / sizeof *kinds; /* the last one only if nobody else tells */

/* Our thread must be out of CUPTI before CUPTI leaves the process, and before the process ends. */
static pthread_mutex_t looking = PTHREAD_MUTEX_INITIALIZER;
static int attached; /* to CUPTI; under `looking` once the thread runs */

static void set_clock_offset(void) {
  uint64_t of_cupti = 0;
  const uint64_t before = now_ns();
  if (has_own_clock || !attached || cupti.timestamp(&of_cupti) != CUPTI_OK) return;
  clock_offset_ns = (int64_t)(before + (now_ns() - before) / 2) - (int64_t)of_cupti;
}

/* What CUPTI counts by where nobody tells it otherwise: for whoever uses it after us. */
static uint64_t usual_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

/* Windows that were opened or closed and are not told yet: written by the training thread, read by
 * ours. */
struct window_edge {
  uint64_t at_ns;
  int opens;
};
#define MOST_EDGES 64U
static struct window_edge edges[MOST_EDGES];
static _Atomic uint32_t edges_written;
static _Atomic uint32_t edges_told;
static int window_is_open = 1; /* the training thread's */
static int told_open = 1;      /* our thread's */

static const char* attach(void);
static void stop(const char* why);

static void set_window(int open) {
  const uint32_t written = edges_written;
  if (!running || open == window_is_open || written - edges_told == MOST_EDGES) return;
  if (open && !attached && attach() != NULL) {
    stop("refused");
    return;
  }
  const struct window_edge edge = {now_ns(), open};
  if (open) {
    edges[written % MOST_EDGES] = edge;
    edges_written = written + 1; /* told before anything that it lets in */
  }
  for (size_t i = 0; i < wanted_kinds; ++i) {
    const int done = open ? cupti.enable(kinds[i]) : cupti.disable(kinds[i]);
    if (open && kinds[i] == CUPTI_KIND_CONCURRENT_KERNEL && done != CUPTI_OK) {
      stop("refused"); /* without kernels a GPU would look idle */
      return;
    }
  }
  if (!open) {
    edges[written % MOST_EDGES] = edge;
    edges_written = written + 1;
  }
  window_is_open = open;
}

/* Switches the records on or off, on the thread that trains: no flush, no record. */
__attribute__((visibility("default"))) void lockstep_cuda_probe_window(int open) {
  if (!running) return;
  pthread_mutex_lock(&looking);
  set_window(open);
  pthread_mutex_unlock(&looking);
}

/* What was launched before a window closed still runs for a while, and is handed over when done. */
#define DELIVERED_NS 250000000U

/* Under the mutex. `delivered_ns`: what was launched before then has been handed over. While it
 * rests: until when nothing was missed, so that nobody waits for more. */
static void tell_windows(uint64_t now, uint64_t delivered_ns) {
  char text[80];
  while (edges_told != edges_written) {
    const struct window_edge edge = edges[edges_told % MOST_EDGES];
    if (!edge.opens && edge.at_ns > delivered_ns) break;
    snprintf(text, sizeof text, "cuda_probe %s=%llu", edge.opens ? "opened" : "closed",
             (unsigned long long)edge.at_ns);
    say_fact(text);
    told_open = edge.opens;
    ++edges_told;
  }
  if (edges_told == edges_written && !told_open) {
    snprintf(text, sizeof text, "cuda_probe rested=%llu", (unsigned long long)now);
    say_fact(text);
  }
}

static int may_leave; /* the measuring is over, and the program goes on; under `looking` */

/* Whether CUPTI can leave the process now. Before CUDA 12.6 (CUPTI's version 24) CUDA graphs do not
 * outlive that: PyTorch's profiler keeps away from it there, too. */
static int can_detach(void) {
  uint32_t version = 0;
  return attached && (running ? !window_is_open : may_leave) && cupti.finalize != NULL &&
         cupti.version != NULL && cupti.version(&version) == CUPTI_OK && version >= 24;
}

/* The driver's own calls, by its names for them. */
struct driver_calls {
  int (*count)(int* devices);
  int (*state)(int device, unsigned* flags, int* active);
  int (*retain)(void** context, int device);
  int (*release)(int device);
  int (*push)(void* context);
  int (*pop)(void** context);
  int (*synchronize)(void);
};

static int find_driver(struct driver_calls* driver) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == NULL) return 0;
  *(void**)&driver->count = dlsym(library, "cuDeviceGetCount");
  *(void**)&driver->state = dlsym(library, "cuDevicePrimaryCtxGetState");
  *(void**)&driver->retain = dlsym(library, "cuDevicePrimaryCtxRetain");
  *(void**)&driver->release = dlsym(library, "cuDevicePrimaryCtxRelease_v2");
  *(void**)&driver->push = dlsym(library, "cuCtxPushCurrent_v2");
  *(void**)&driver->pop = dlsym(library, "cuCtxPopCurrent_v2");
  *(void**)&driver->synchronize = dlsym(library, "cuCtxSynchronize");
  return driver->count && driver->state && driver->retain && driver->release && driver->push &&
         driver->pop && driver->synchronize;
}

/* Whether all GPUs of this process have done what they were given. */
static int wait_for_gpus(void) {
  struct driver_calls driver;
  int devices = 0;
  if (!find_driver(&driver) || driver.count(&devices) != 0) return 0;
  int all_done = 1;
  for (int device = 0; device < devices && all_done; ++device) {
    unsigned flags = 0;
    int active = 0;
    void* context = NULL;
    if (driver.state(device, &flags, &active) != 0 || !active) continue;
    if (driver.retain(&context, device) != 0) return 0;
    all_done = driver.push(context) == 0;
    if (all_done) {
      all_done = driver.synchronize() == 0;
      driver.pop(&context);
    }
    driver.release(device);
  }
  return all_done;
}

/* What a GPU was given may wait for something that this process does later (a receive that was
 * posted ahead), so another thread waits, and for this long at most. */
#define GPUS_TAKE_S 1
#define MOST_LATE 2 /* times that they took longer: then CUPTI stays */
static sem_t gpus_are_done;
static _Atomic int somebody_waits;
static _Atomic int all_are_done;
static int times_late; /* the training thread's */

static void* wait_beside(void* unused) {
  (void)unused;
  pthread_setname_np(pthread_self(), "lockstep-wait");
  all_are_done = wait_for_gpus();
  somebody_waits = 0;
  sem_post(&gpus_are_done);
  return NULL;
}

static int start_thread(void* (*run)(void*)) {
  pthread_t thread;
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  const int made = pthread_create(&thread, &detached, run, NULL);
  pthread_attr_destroy(&detached);
  return made == 0;
}

static int gpus_have_done_all(void) {
  if (times_late == MOST_LATE || atomic_exchange(&somebody_waits, 1)) return 0;
  while (sem_trywait(&gpus_are_done) == 0) continue; /* of one that came late */
  if (!start_thread(wait_beside)) {
    somebody_waits = 0;
    return 0;
  }
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += GPUS_TAKE_S;
  int waited;
  do {
    waited = sem_timedwait(&gpus_are_done, &until);
  } while (waited != 0 && errno == EINTR);
  if (waited != 0) {
    ++times_late;
    return 0;
  }
  return all_are_done;
}

/* Waits for the GPUs and has CUPTI leave the process until the next window; called behind a closed
 * one, on the thread that trains. NVIDIA asks for both, a GPU at rest and flushed records. Returns
 * how many nanoseconds that took once the GPUs had done what they were given, 0 where CUPTI stays.
 */
__attribute__((visibility("default"))) uint64_t lockstep_cuda_probe_detach(void) {
  if (!can_detach() || !gpus_have_done_all()) return 0;
  const uint64_t begin = now_ns();
  pthread_mutex_lock(&looking);
  const int leaves = can_detach(); /* somebody may have stopped us meanwhile */
  if (leaves) {
    cupti.flush_all(CUPTI_FLUSH_FORCED);
    attached = cupti.finalize() != CUPTI_OK;
    pthread_mutex_lock(&mutex);
    if (!attached) memset(names, 0, MOST_NAMES * sizeof *names);
    if (running) tell_windows(now_ns(), UINT64_MAX);
    pthread_mutex_unlock(&mutex);
  }
  pthread_mutex_unlock(&looking);
  return leaves ? now_ns() - begin : 0;
}

static void stop(const char* why) {
  if (!atomic_exchange(&running, 0)) return;
  if (attached) {
    for (size_t i = 0; i < wanted_kinds; ++i) cupti.disable(kinds[i]);
    cupti.flush_all(CUPTI_FLUSH_FORCED);
    if (has_own_clock) cupti.register_clock(usual_clock);
  }
  pthread_mutex_lock(&mutex);
  char text[120];
  snprintf(text, sizeof text, "cuda_probe stopped=%s", why);
  if (ring != NULL) {
    tell_windows(now_ns(), UINT64_MAX);
    say_fact(text);
  }
  pthread_mutex_unlock(&mutex);
}

/* For the Python probe, before torch.profiler takes CUPTI's records for itself. */
__attribute__((visibility("default"))) void lockstep_cuda_probe_stop(void) {
  if (!running) return; /* at the end of the process `looking` is never given back */
  pthread_mutex_lock(&looking);
  stop("torch.profiler");
  pthread_mutex_unlock(&looking);
}

static void at_exit(void) {
  if (ring == NULL) return;
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 2;
  (void)pthread_mutex_timedlock(&looking, &until); /* never given back */
  stop("end");
  lockstep_ring_remove("cuda");
}

/* Threads do not survive a fork, and neither does CUDA. */
static void after_fork(void) {
  running = 0;
  ring = NULL;
}

static int measuring_is_over(void) {
  char folder[400];
  char path[512];
  if (getenv("LOCKSTEP_PROBE_FOLDER") == NULL || !lockstep_ring_folder(folder, sizeof folder))
    return 0;
  snprintf(path, sizeof path, "%s/stop", folder);
  return access(path, F_OK) == 0;
}

static void* look_after(void* unused) {
  (void)unused;
  pthread_setname_np(pthread_self(), "lockstep-cuda");
  while (running) {
    const struct timespec pause = {0, LOOK_NS};
    nanosleep(&pause, NULL);
    pthread_mutex_lock(&looking);
    if (running) {
      set_clock_offset();
      const uint64_t now = now_ns();
      /* Between windows, once all was handed over, there is nothing to flush: CUPTI is left in
       * peace. */
      if (attached && (told_open || edges_told != edges_written)) cupti.flush_all(0);
      pthread_mutex_lock(&mutex);
      tell_windows(now, now - DELIVERED_NS);
      pthread_mutex_unlock(&mutex);
      if (measuring_is_over()) {
        may_leave = 1;
        stop("measured");
      }
    }
    pthread_mutex_unlock(&looking);
  }
  return NULL;
}

static int names_cupti(struct dl_phdr_info* info, size_t size, void* found) {
  (void)size;
  if (info->dlpi_name == NULL || strstr(info->dlpi_name, "libcupti.so") == NULL) return 0;
  snprintf(found, 400, "%s", info->dlpi_name);
  return 1;
}

/* The one that is there; else one that the loader finds. */
static void* open_cupti(void) {
  char loaded[400] = "";
  dl_iterate_phdr(names_cupti, loaded);
  if (*loaded != '\0') return dlopen(loaded, RTLD_NOW | RTLD_NOLOAD);
  static const char* const usual[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11",
                                      "libcupti.so"};
  for (size_t i = 0; i < sizeof usual / sizeof *usual; ++i) {
    void* const library = dlopen(usual[i], RTLD_NOW);
    if (library != NULL) return library;
  }
  return NULL;
}

static int find_calls(void* library) {
  *(void**)&cupti.register_callbacks = dlsym(library, "cuptiActivityRegisterCallbacks");
  *(void**)&cupti.enable = dlsym(library, "cuptiActivityEnable");
  *(void**)&cupti.disable = dlsym(library, "cuptiActivityDisable");
  *(void**)&cupti.flush_all = dlsym(library, "cuptiActivityFlushAll");
  *(void**)&cupti.next_record = dlsym(library, "cuptiActivityGetNextRecord");
  *(void**)&cupti.dropped_records = dlsym(library, "cuptiActivityGetNumDroppedRecords");
  *(void**)&cupti.timestamp = dlsym(library, "cuptiGetTimestamp");
  *(void**)&cupti.register_clock = dlsym(library, "cuptiActivityRegisterTimestampCallback");
  *(void**)&cupti.version = dlsym(library, "cuptiGetVersion");
  *(void**)&cupti.finalize = dlsym(library, "cuptiFinalize");
  return cupti.register_callbacks != NULL && cupti.enable != NULL && cupti.disable != NULL &&
         cupti.flush_all != NULL && cupti.next_record != NULL && cupti.dropped_records != NULL &&
         cupti.timestamp != NULL;
}

/* Nothing is recorded yet. */
static const char* attach(void) {
  has_own_clock = cupti.register_clock != NULL && cupti.register_clock(now_ns) == CUPTI_OK;
  if (cupti.register_callbacks(give_buffer, take_buffer) != CUPTI_OK) {
    if (has_own_clock) cupti.register_clock(usual_clock);
    return "somebody else uses CUPTI already";
  }
  attached = 1;
  set_clock_offset();
  return NULL;
}

static int others_tell_waits(void) {
  int (*tells)(void) = NULL;
  *(void**)&tells = dlsym(RTLD_DEFAULT, "lockstep_host_probe_tells_waits");
  return tells != NULL && tells();
}

static const char* start(void) {
  void* const library = open_cupti();
  if (library == NULL)
    return "no libcupti is in the process, and none was found (PyTorch with CUDA has one)";
  if (!find_calls(library)) return "this libcupti lacks calls that it needs";
  names = calloc(MOST_NAMES, sizeof *names);
  said_names = calloc(MOST_NAMES, sizeof *said_names);
  if (names == NULL || said_names == NULL) return "no memory";
  const char* why = "";
  ring = lockstep_ring_create("cuda", LOCKSTEP_ROLE_CUDA, SLOTS, &why);
  if (ring == NULL) return why;
  void* const cxx = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_NOLOAD);
  if (cxx != NULL) *(void**)&demangle = dlsym(cxx, "__cxa_demangle");
  why = attach();
  if (why != NULL) return why;
  if (others_tell_waits()) --wanted_kinds;
  if (cupti.enable(CUPTI_KIND_CONCURRENT_KERNEL) != CUPTI_OK) {
    return "CUPTI refuses its records: another profiler has them, or the driver's settings keep "
           "them for the administrator";
  }
  running = 1;
  for (size_t i = 0; i < wanted_kinds; ++i)
    (void)cupti.enable(kinds[i]); /* without one of the others less is known, and nothing wrong */
  pthread_atfork(NULL, NULL, after_fork);
  atexit(at_exit);
  if (sem_init(&gpus_are_done, 0, 0) != 0 || !start_thread(look_after)) {
    stop("no thread");
    return "no thread could be made";
  }
  return NULL;
}

/* The driver calls this when it starts. Anything but success would only make it complain. */
__attribute__((visibility("default"))) int InitializeInjection(void) {
  static _Atomic int begun;
  if (!lockstep_probe_wanted("cuda") || atomic_exchange(&begun, 1)) return 1;
  const char* const why = start();
  if (why != NULL) {
    lockstep_probe_says("the CUDA probe stays out: ", why);
    if (ring != NULL) lockstep_ring_remove("cuda");
    ring = NULL;
  }
  return 1;
}
