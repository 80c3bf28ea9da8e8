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
 * them where it is loaded). And a process in which CUPTI once was stays slower by 16 to 26 % after
 * cuptiActivityDisable; cuptiFinalize gives all of it back in 2 to 4 ms, but where two other
 * threads called CUDA without a pause it corrupted the heap in 13 of 75 processes, from the exit of
 * a CUDA call, too, as NVIDIA advises (CUDA 13.0, H200). So where the Python probe sees steps:
 * - CUPTI comes with the first window, behind steps that nobody disturbed: they tell how long one
 *   takes;
 * - records are on for a few steps at a time (lockstep_cuda_probe_window);
 * - CUPTI leaves behind a window (lockstep_cuda_probe_detach) where no other thread has run since
 *   the first steps, and else it stays.
 * Without the Python probe, or where every step is asked for, it comes with the driver, and records
 * stay on.
 *
 * What fails is said once, and the program goes on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>

#include "probes/cuda/cupti_abi.h"
#include "probes/cuda/gpus_at_rest.h"
#include "probes/cuda/kernel_names.h"
#include "probes/cuda/threads.h"
#include "probes/wire/ring_file.h"

#define SLOTS 32768U /* 8 MiB: two seconds of 160,000 kernels each */
#define BUFFER_BYTES \
  (64U *             \
   1024U) /* some 300 kernels: CUPTI hands a buffer over once it is full and all of it is done */
#define LOOK_NS 100000000L /* flushes what is done, and looks for the sign to stop */
#define LONGEST_ROW_NS 4000000000U

static struct cupti_calls cupti;
static struct lockstep_wire_header* ring;
static _Atomic int running;
static int has_own_clock; /* CUPTI asks us for the time: its records are of CLOCK_MONOTONIC */
static _Atomic int64_t clock_offset_ns; /* else: added to its times they are */

/* Under this mutex: the ring's writing end, rows that are not written yet. CUPTI may hand
 * over buffers on several threads. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct lockstep_device_row rows[LOCKSTEP_DEVICE_ROWS];
static uint32_t row_count;
static uint64_t lost;

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

static void add_row(enum lockstep_device_kind kind, uint64_t start, uint64_t end, uint32_t device,
                    uint32_t stream, uint32_t subject, uint64_t bytes) {
  if (start == 0 || end < start) {
    /* A kernel was not done when the buffer was taken by force; at the end nobody waits for it.
     * Of some short copies to the host CUPTI never tells when they were. */
    lost += running && kind == LOCKSTEP_DEVICE_KERNEL;
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
              number_of_kernel(kernel->name), 0);
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

/* What happened and is not told yet: written by the training thread, read by ours. */
enum edge_kind { ATTACHED, OPENED, CLOSED, LEFT };
static const char* const edge_names[] = {"attached", "opened", "closed", "left"};
struct edge {
  uint64_t at_ns;
  enum edge_kind kind;
};
#define MOST_EDGES 64U
static struct edge edges[MOST_EDGES];
static _Atomic uint32_t edges_written;
static _Atomic uint32_t edges_told;
static int window_is_open; /* under `looking` */
static int told_open;      /* our thread's */
static int steps_are_seen; /* somebody opens and closes windows; under `looking` */

static void add_edge(uint64_t at_ns, enum edge_kind kind) {
  edges[edges_written % MOST_EDGES] = (struct edge){at_ns, kind};
  ++edges_written;
}

static const char* attach(void);
static void stop(const char* why);
static void end_before_cupti(void);

static const char refused[] =
    "CUPTI refuses its records: another profiler has them, or the driver's settings keep them for "
    "the administrator";

/* Without kernels a GPU would look idle; without one of the others less is known, and nothing
 * wrong. Returns why not. */
static const char* switch_on(void) {
  if (!attached) {
    const uint64_t begin = now_ns();
    threads_before_cupti();
    const char* const why = attach();
    if (why != NULL) return why;
    add_edge(begin, ATTACHED);
    end_before_cupti();
  }
  add_edge(now_ns(), OPENED); /* told before anything that it lets in */
  for (size_t i = 0; i < wanted_kinds; ++i) {
    const int done = cupti.enable(kinds[i]);
    if (kinds[i] == CUPTI_KIND_CONCURRENT_KERNEL && done != CUPTI_OK) return refused;
  }
  window_is_open = 1;
  return NULL;
}

static void switch_off(void) {
  const uint64_t now = now_ns();
  for (size_t i = 0; i < wanted_kinds; ++i) cupti.disable(kinds[i]);
  add_edge(now, CLOSED);
  window_is_open = 0;
}

static void set_window(int open) {
  if (!running || open == window_is_open || edges_written - edges_told > MOST_EDGES - 4) return;
  if (!open) {
    switch_off();
    return;
  }
  const char* const why = switch_on();
  if (why != NULL) {
    lockstep_probe_says("the CUDA probe stops: ", why);
    stop("refused");
  }
}

/* Switches the records on or off, on the thread that trains: no flush, no record. The first call
 * says that steps are seen. */
__attribute__((visibility("default"))) void lockstep_cuda_probe_window(int open) {
  if (!running) return;
  pthread_mutex_lock(&looking);
  if (!steps_are_seen) threads_watch();
  steps_are_seen = 1;
  const int comes = open && !window_is_open && !attached;
  set_window(open);
  if (comes) threads_behind_cupti();
  pthread_mutex_unlock(&looking);
}

/* What was launched before a window closed still runs for a while, and is handed over when done. */
#define DELIVERED_NS 250000000U

/* Under the mutex. `delivered_ns`: what was launched before then has been handed over. While it
 * rests: until when nothing was missed, so that nobody waits for more. */
static void tell_windows(uint64_t now, uint64_t delivered_ns) {
  char text[80];
  while (edges_told != edges_written) {
    const struct edge edge = edges[edges_told % MOST_EDGES];
    if (edge.kind == CLOSED && edge.at_ns > delivered_ns) break;
    snprintf(text, sizeof text, "cuda_probe %s=%llu", edge_names[edge.kind],
             (unsigned long long)edge.at_ns);
    say_fact(text);
    if (edge.kind == OPENED || edge.kind == CLOSED) told_open = edge.kind == OPENED;
    ++edges_told;
  }
  if (edges_told == edges_written && !told_open) {
    snprintf(text, sizeof text, "cuda_probe rested=%llu", (unsigned long long)now);
    say_fact(text);
  }
}

static _Atomic int may_leave; /* the measuring is over, and the program goes on */

/* Before CUDA 12.6 (CUPTI's version 24) CUDA graphs do not outlive its leaving: PyTorch's profiler
 * keeps away from it there, too. */
static int can_ever_leave(void) {
  uint32_t version = 0;
  return cupti.finalize != NULL && cupti.version != NULL && cupti.version(&version) == CUPTI_OK &&
         version >= 24;
}

static int may_leave_now(void) {
  return attached && (running ? !window_is_open : may_leave) && can_ever_leave() &&
         threads_would_have_run();
}

/* Before the first window: whether CUPTI could leave behind it, as far as one can tell. What ran
 * until now may have been at the start only, and is forgotten. */
__attribute__((visibility("default"))) int lockstep_cuda_probe_is_alone(const int* harmless,
                                                                        int count) {
  if (!running || !can_ever_leave()) return 0;
  if (threads_rested(harmless, count)) return threads_would_have_run();
  threads_watch();
  return 0;
}

/* Before lockstep_cuda_probe_detach, which NVIDIA asks for: whether the GPUs have done what they
 * were given, and CUPTI may leave. Others may run meanwhile. */
__attribute__((visibility("default"))) int lockstep_cuda_probe_may_leave(const int* harmless,
                                                                         int count) {
  return may_leave_now() && threads_rested(harmless, count) && gpus_have_done_all();
}

/* A thread that waited for a GPU has run once that is at rest. */
#define WAKES_UP_NS 200000L

/* Has CUPTI leave the process until the next window; called behind a closed one, on the thread that
 * trains, which holds on to Python's lock meanwhile: no other thread of Python's can run. Where
 * another thread ran since the first steps, but the `harmless` ones, CUPTI stays. Returns how many
 * nanoseconds it took, 0 where CUPTI stays. */
__attribute__((visibility("default"))) uint64_t lockstep_cuda_probe_detach(const int* harmless,
                                                                           int count) {
  const uint64_t begin = now_ns();
  struct timespec wakes_up = {0, WAKES_UP_NS};
  while (nanosleep(&wakes_up, &wakes_up) != 0 && errno == EINTR) continue;
  pthread_mutex_lock(&looking);
  /* somebody may have stopped us meanwhile */
  const int leaves = may_leave_now() && threads_rested(harmless, count);
  if (leaves) {
    cupti.flush_all(CUPTI_FLUSH_FORCED);
    attached = cupti.finalize() != CUPTI_OK;
    pthread_mutex_lock(&mutex);
    if (!attached) {
      kernel_names_forget_pointers();
      add_edge(now_ns(), LEFT);
    }
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
  may_leave = 0;        /* Kineto's CUPTI is the same */
  if (!running) return; /* at the end of the process `looking` is never given back */
  pthread_mutex_lock(&looking);
  stop("torch.profiler");
  pthread_mutex_unlock(&looking);
}

static void at_exit(void) {
  static _Atomic int done;
  if (ring == NULL || atomic_exchange(&done, 1)) return;
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 2;
  (void)pthread_mutex_timedlock(&looking, &until); /* never given back */
  stop("end");
  lockstep_ring_remove("cuda");
}

/* What CUPTI has run at the process's end was given to it when it came: ours must come before. */
static void end_before_cupti(void) {
  static int times;
  if (times < 2) atexit(at_exit); /* behind what CUDA's start and CUPTI's first coming registered */
  ++times;
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
  threads_this_is_ours();
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

static int start_thread(void) {
  pthread_t thread;
  return pthread_create(&thread, NULL, look_after, NULL) == 0 && pthread_detach(thread) == 0;
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

/* Where the Python probe is in the process, and not every step is asked for. */
static int waits_for_steps(void) {
  const char* const when = getenv("LOCKSTEP_CUDA_PROBE");
  return lockstep_probe_wanted("python") && dlsym(RTLD_DEFAULT, "Py_IsInitialized") != NULL &&
         (when == NULL || strcmp(when, "always") != 0);
}

static const char* start(void) {
  void* const library = open_cupti();
  if (library == NULL)
    return "no libcupti is in the process, and none was found (PyTorch with CUDA has one)";
  if (!find_calls(library)) return "this libcupti lacks calls that it needs";
  const char* why = "";
  ring = lockstep_ring_create("cuda", LOCKSTEP_ROLE_CUDA, SLOTS, &why);
  if (ring == NULL) return why;
  if (!kernel_names_begin(ring)) return "no memory";
  if (others_tell_waits()) --wanted_kinds;
  if (waits_for_steps())
    tell_windows(now_ns(), 0); /* nothing is on yet */
  else if ((why = switch_on()) != NULL)
    return why;
  running = 1;
  pthread_atfork(NULL, NULL, after_fork);
  end_before_cupti();
  if (!gpus_at_rest_begin() || !start_thread()) {
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
