/* Loaded before the C library's users (LD_PRELOAD): how long the main thread of a training process
 * spends in calls that write, read and wait, and how long any of its threads waits for a GPU.
 *
 * Only calls that take 50 microseconds or more are written (20 where a GPU is waited for); all
 * others cost two reads of the clock. Nothing is written by a process that has not loaded torch, so
 * shells and launchers are left alone. No allocation and no lock after the start; the ring is made
 * at the first record. What fails is said once and leaves the call as it was. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "probes/wire/ring_file.h"

#define SHORTEST_NS 50000U /* shorter calls are the price of doing anything */
#define SHORTEST_GPU_WAIT_NS 20000U
#define CHECKPOINT_BYTES 1000000U /* one write of this size is no line of a log */
#define LOOK_FOR_TORCH_NS 200000000U
#define SLOTS LOCKSTEP_WIRE_PROBE_SLOTS /* 147 .item() in a step are as many records */

static struct lockstep_wire_header* _Atomic ring; /* made by the main thread, read by all */
static int failed;
static int has_torch;
static uint64_t looked_for_torch_ns;
static pid_t own_pid;
static __thread int inside;
static __thread signed char on_main; /* 0: not asked yet, 1: yes, -1: no */

static int is_main_thread(void) {
  if (on_main == 0) on_main = (pid_t)syscall(SYS_gettid) == getpid() ? 1 : -1;
  return on_main > 0;
}

/* PyTorch computes the backward pass of a GPU's tensors there. */
static int is_autograds_thread(void) {
  char name[16] = "";
  return prctl(PR_GET_NAME, name) == 0 && strncmp(name, "pt_autograd", 11) == 0;
}

static void give_up(const char* why) {
  failed = 1;
  char more[200];
  snprintf(more, sizeof more, "%s (%s)", why, strerror(errno));
  lockstep_probe_says("the host probe stops: ", more);
}

static int names_torch(struct dl_phdr_info* info, size_t size, void* found) {
  (void)size;
  if (info->dlpi_name != NULL && strstr(info->dlpi_name, "libc10") != NULL) *(int*)found = 1;
  return *(int*)found;
}

static int torch_is_loaded(uint64_t now) {
  if (has_torch) return 1;
  if (now - looked_for_torch_ns < LOOK_FOR_TORCH_NS) return 0;
  looked_for_torch_ns = now;
  dl_iterate_phdr(names_torch, &has_torch);
  return has_torch;
}

static void open_ring(void) {
  const char* why = "";
  struct lockstep_wire_header* const made =
      lockstep_ring_create("host", LOCKSTEP_ROLE_HOST, SLOTS, &why);
  if (made == NULL) give_up(why);
  ring = made;
}

/* The parent's ring is the parent's. A child that does not run another program serves it (a
 * loader's worker): not watched. */
static void after_fork(void) {
  ring = NULL;
  failed = 1;
}

static int ends_with(const char* text, const char* ending) {
  const size_t length = strlen(text);
  const size_t wanted = strlen(ending);
  return length >= wanted && strcmp(text + length - wanted, ending) == 0;
}

static int is_checkpoint(const char* path) {
  static const char* const endings[] = {".pt",   ".pth",    ".bin", ".safetensors",
                                        ".ckpt", ".distcp", ".pkl"};
  for (size_t i = 0; i < sizeof endings / sizeof *endings; ++i)
    if (ends_with(path, endings[i])) return 1;
  return 0;
}

enum call_kind { CALL_WRITES, CALL_READS, CALL_SENDS, CALL_WAITS, CALL_WAITS_FOR_GPU };

static uint32_t part_of(enum call_kind kind, const char* path, uint64_t bytes) {
  const int is_file = path[0] == '/';
  switch (kind) {
    case CALL_WRITES:
      if (is_file && (is_checkpoint(path) || bytes >= CHECKPOINT_BYTES))
        return LOCKSTEP_SPAN_CHECKPOINT;
      return LOCKSTEP_SPAN_LOGGING;
    case CALL_READS:
      return is_file && strncmp(path, "/dev/", 5) != 0 ? LOCKSTEP_SPAN_DATA_WAIT
                                                       : LOCKSTEP_SPAN_OTHER;
    case CALL_SENDS:
    case CALL_WAITS:
      return LOCKSTEP_SPAN_OTHER;
    case CALL_WAITS_FOR_GPU:
      return LOCKSTEP_SPAN_SYNC;
  }
  return LOCKSTEP_SPAN_OTHER;
}

/* After a call that began at `begin`. `file`: its descriptor, or -1; `path`: where it is known.
 * Keeps errno. */
static void told(const char* what, enum call_kind kind, uint64_t begin, int file, const char* path,
                 uint64_t bytes) {
  const uint64_t end = lockstep_now_ns();
  const uint64_t shortest = kind == CALL_WAITS_FOR_GPU ? SHORTEST_GPU_WAIT_NS : SHORTEST_NS;
  if (end - begin < shortest || failed || !torch_is_loaded(end)) return;
  if (getpid() != own_pid)
    return; /* a child of vfork: its memory, and the ring, are the parent's */
  const int error = errno;
  inside = 1;
  if (ring == NULL && is_main_thread()) open_ring();
  if (ring != NULL) {
    struct lockstep_span_record span;
    memset(&span, 0, sizeof span);
    char link[48];
    char target[sizeof span.file] = "";
    if (path != NULL) {
      snprintf(target, sizeof target, "%s", path);
    } else if (file >= 0) {
      snprintf(link, sizeof link, "/proc/self/fd/%d", file);
      const ssize_t length = readlink(link, target, sizeof target - 1);
      target[length > 0 ? length : 0] = '\0';
    }
    span.begin_ns = begin;
    span.end_ns = end;
    span.busy_ns = end - begin;
    span.bytes = bytes;
    span.count = 1;
    span.part = part_of(kind, target, bytes);
    span.thread = (uint32_t)getpid();
    if (!is_main_thread())
      span.flags = is_autograds_thread() ? LOCKSTEP_FLAG_AUTOGRAD : LOCKSTEP_FLAG_OTHER_THREAD;
    snprintf(span.what, sizeof span.what, "%s", what);
    memcpy(span.file, target, sizeof target);
    lockstep_ring_write_shared(ring, LOCKSTEP_RECORD_SPAN, &span, (uint32_t)sizeof span);
  }
  inside = 0;
  errno = error;
}

/* The C library's own. Condition variables changed long ago: the old ones must not be found. */
static void* real(const char* name) {
  static const char* const versions[] = {"GLIBC_2.3.2", "GLIBC_2.17", "GLIBC_2.34"};
  if (strncmp(name, "pthread_cond", 12) == 0)
    for (size_t i = 0; i < sizeof versions / sizeof *versions; ++i) {
      void* const found = dlvsym(RTLD_NEXT, name, versions[i]);
      if (found != NULL) return found;
    }
  return dlsym(RTLD_NEXT, name);
}

/* A call that is not watched goes straight through. */
#define WATCHED() (!inside && !failed && is_main_thread())
/* A gradient's hook sleeps on autograd's thread, and the main thread waits for it. */
#define WATCHED_SLEEP() (!inside && !failed && (is_main_thread() || is_autograds_thread()))

#define DEFINE_CALL(result, name, kind, file, bytes, parameters, arguments) \
  DEFINE_CALL_OF(WATCHED, result, name, kind, file, bytes, parameters, arguments)
#define DEFINE_SLEEP(result, name, parameters, arguments) \
  DEFINE_CALL_OF(WATCHED_SLEEP, result, name, CALL_WAITS, -1, 0, parameters, arguments)
#define DEFINE_CALL_OF(watched, result, name, kind, file, bytes, parameters, arguments) \
  result name parameters {                                                              \
    REAL_OF(result, name, parameters);                                                  \
    if (real_##name == NULL) { /* an older C library has no such call */                \
      errno = ENOSYS;                                                                   \
      return (result) - 1;                                                              \
    }                                                                                   \
    if (!watched()) return real_##name arguments;                                       \
    const uint64_t begin = lockstep_now_ns();                                           \
    const result value = real_##name arguments;                                         \
    const int error = errno;                                                            \
    told(#name, kind, begin, file, NULL, bytes);                                        \
    errno = error;                                                                      \
    return value;                                                                       \
  }
#define REAL_OF(result, name, parameters) \
  static result(*real_##name) parameters; \
  if (real_##name == NULL) *(void**)&real_##name = real(#name)

DEFINE_CALL(ssize_t, write, CALL_WRITES, file, count, (int file, const void* data, size_t count),
            (file, data, count))
DEFINE_CALL(ssize_t, pwrite, CALL_WRITES, file, count,
            (int file, const void* data, size_t count, off_t offset), (file, data, count, offset))
DEFINE_CALL(ssize_t, pwrite64, CALL_WRITES, file, count,
            (int file, const void* data, size_t count, off64_t offset), (file, data, count, offset))
DEFINE_CALL(ssize_t, writev, CALL_WRITES, file, (uint64_t)(value > 0 ? value : 0),
            (int file, const struct iovec* vectors, int count), (file, vectors, count))
DEFINE_CALL(int, fsync, CALL_WRITES, file, 0, (int file), (file))
DEFINE_CALL(int, fdatasync, CALL_WRITES, file, 0, (int file), (file))
DEFINE_CALL(ssize_t, read, CALL_READS, file, (uint64_t)(value > 0 ? value : 0),
            (int file, void* data, size_t count), (file, data, count))
DEFINE_CALL(ssize_t, pread, CALL_READS, file, (uint64_t)(value > 0 ? value : 0),
            (int file, void* data, size_t count, off_t offset), (file, data, count, offset))
DEFINE_CALL(ssize_t, pread64, CALL_READS, file, (uint64_t)(value > 0 ? value : 0),
            (int file, void* data, size_t count, off64_t offset), (file, data, count, offset))
DEFINE_CALL(ssize_t, send, CALL_SENDS, file, count,
            (int file, const void* data, size_t count, int flags), (file, data, count, flags))
DEFINE_CALL(ssize_t, sendto, CALL_SENDS, file, count,
            (int file, const void* data, size_t count, int flags, const struct sockaddr* to,
             socklen_t size),
            (file, data, count, flags, to, size))
DEFINE_CALL(ssize_t, sendmsg, CALL_SENDS, file, (uint64_t)(value > 0 ? value : 0),
            (int file, const struct msghdr* message, int flags), (file, message, flags))
DEFINE_CALL(int, poll, CALL_WAITS, -1, 0, (struct pollfd * files, nfds_t count, int timeout),
            (files, count, timeout))
DEFINE_CALL(int, epoll_wait, CALL_WAITS, -1, 0,
            (int file, struct epoll_event* events, int most, int timeout),
            (file, events, most, timeout))
DEFINE_CALL(ssize_t, recv, CALL_SENDS, file, (uint64_t)(value > 0 ? value : 0),
            (int file, void* data, size_t count, int flags), (file, data, count, flags))
DEFINE_CALL(ssize_t, recvfrom, CALL_SENDS, file, (uint64_t)(value > 0 ? value : 0),
            (int file, void* data, size_t count, int flags, struct sockaddr* from, socklen_t* size),
            (file, data, count, flags, from, size))
DEFINE_SLEEP(int, nanosleep, (const struct timespec* length, struct timespec* left), (length, left))
DEFINE_SLEEP(int, clock_nanosleep,
             (clockid_t clock, int flags, const struct timespec* length, struct timespec* left),
             (clock, flags, length, left))
DEFINE_SLEEP(int, select,
             (int count, fd_set* read, fd_set* write, fd_set* other, struct timeval* timeout),
             (count, read, write, other, timeout))
DEFINE_CALL(int, pthread_cond_wait, CALL_WAITS, -1, 0,
            (pthread_cond_t * condition, pthread_mutex_t* mutex), (condition, mutex))
DEFINE_CALL(int, pthread_cond_timedwait, CALL_WAITS, -1, 0,
            (pthread_cond_t * condition, pthread_mutex_t* mutex, const struct timespec* until),
            (condition, mutex, until))
DEFINE_CALL(int, pthread_cond_clockwait, CALL_WAITS, -1, 0,
            (pthread_cond_t * condition, pthread_mutex_t* mutex, clockid_t clock,
             const struct timespec* until),
            (condition, mutex, clock, until))
DEFINE_CALL(int, sem_wait, CALL_WAITS, -1, 0, (sem_t * semaphore), (semaphore))
DEFINE_CALL(int, sem_timedwait, CALL_WAITS, -1, 0,
            (sem_t * semaphore, const struct timespec* until), (semaphore, until))
DEFINE_CALL(int, sem_clockwait, CALL_WAITS, -1, 0,
            (sem_t * semaphore, clockid_t clock, const struct timespec* until),
            (semaphore, clock, until))
/* stdio's inner writes pass no symbol: its own calls are watched. */
DEFINE_CALL(size_t, fwrite, CALL_WRITES, stream != NULL ? fileno(stream) : -1, size* count,
            (const void* data, size_t size, size_t count, FILE* stream),
            (data, size, count, stream))
DEFINE_CALL(int, fflush, CALL_WRITES, stream != NULL ? fileno(stream) : -1, 0, (FILE * stream),
            (stream))

int fclose(FILE* stream) {
  REAL_OF(int, fclose, (FILE*));
  if (!WATCHED()) return real_fclose(stream);
  const uint64_t begin = lockstep_now_ns();
  const int value = real_fclose(stream);
  told("fclose", CALL_WRITES, begin, -1, NULL, 0); /* its descriptor is gone */
  return value;
}

/* The mode is there only where a file may be made. */
#define MODE_OF(flags)                                                  \
  unsigned mode = 0;                                                    \
  if (((flags) & O_CREAT) != 0 || ((flags) & O_TMPFILE) == O_TMPFILE) { \
    va_list rest;                                                       \
    va_start(rest, flags);                                              \
    mode = va_arg(rest, unsigned);                                      \
    va_end(rest);                                                       \
  }

#define DEFINE_OPEN(name)                                                                        \
  int name(const char* path, int flags, ...) {                                                   \
    REAL_OF(int, name, (const char*, int, ...));                                                 \
    MODE_OF(flags)                                                                               \
    if (!WATCHED()) return real_##name(path, flags, mode);                                       \
    const uint64_t begin = lockstep_now_ns();                                                    \
    const int value = real_##name(path, flags, mode);                                            \
    told(#name, (flags & O_ACCMODE) == O_RDONLY ? CALL_READS : CALL_WRITES, begin, -1, path, 0); \
    return value;                                                                                \
  }
DEFINE_OPEN(open)
DEFINE_OPEN(open64)

#define DEFINE_OPENAT(name)                                                                      \
  int name(int folder, const char* path, int flags, ...) {                                       \
    REAL_OF(int, name, (int, const char*, int, ...));                                            \
    MODE_OF(flags)                                                                               \
    if (!WATCHED()) return real_##name(folder, path, flags, mode);                               \
    const uint64_t begin = lockstep_now_ns();                                                    \
    const int value = real_##name(folder, path, flags, mode);                                    \
    told(#name, (flags & O_ACCMODE) == O_RDONLY ? CALL_READS : CALL_WRITES, begin, -1, path, 0); \
    return value;                                                                                \
  }
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)

static void* found_in(const char* file, const char* name) {
  void* const library = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
  return library != NULL ? dlsym(library, name) : NULL;
}

/* Of CUDA's runtime, also as some wheels call theirs: libcudart-d0da41ae.so.11.0. */
static int path_of_runtime(struct dl_phdr_info* info, size_t size, void* path) {
  (void)size;
  const char* const base = info->dlpi_name != NULL ? strrchr(info->dlpi_name, '/') : NULL;
  if (base == NULL || strncmp(base, "/libcudart", 10) != 0) return 0;
  snprintf(path, 400, "%s", info->dlpi_name);
  return 1;
}

/* CUDA's runtime arrives with torch, where RTLD_NEXT need not see it. The caller's own libraries
 * say which one is meant where there are two; a caller that is not on the stack (it ended in a
 * jump) means the one that is there. */
static void* real_of_cuda(const char* name, const void* caller, const void* own) {
  Dl_info from;
  void* found = dladdr(caller, &from) != 0 ? found_in(from.dli_fname, name) : NULL;
  if (found == NULL || found == own) found = dlsym(RTLD_NEXT, name);
  if (found == NULL || found == own) {
    char path[400] = "";
    dl_iterate_phdr(path_of_runtime, path);
    found = *path != '\0' ? found_in(path, name) : NULL;
  }
  return found != own ? found : NULL;
}

#define CUDA_ERROR_NOT_INITIALIZED 3
/* Of any thread: a backward pass waits on autograd's. Asked again where another line calls. */
#define DEFINE_CUDA_WAIT(name, parameters, arguments)                   \
  __attribute__((visibility("default"))) int name parameters;           \
  int name parameters {                                                 \
    static __thread const void* known;                                  \
    static __thread int(*real_##name) parameters;                       \
    const void* const caller = __builtin_return_address(0);             \
    if (known != caller) {                                              \
      const int was_inside = inside;                                    \
      inside = 1; /* the loader reads files */                          \
      *(void**)&real_##name = real_of_cuda(#name, caller, (void*)name); \
      inside = was_inside;                                              \
      known = caller;                                                   \
    }                                                                   \
    if (real_##name == NULL) return CUDA_ERROR_NOT_INITIALIZED;         \
    if (inside || failed) return real_##name arguments;                 \
    const uint64_t begin = lockstep_now_ns();                           \
    const int value = real_##name arguments;                            \
    told(#name, CALL_WAITS_FOR_GPU, begin, -1, NULL, 0);                \
    return value;                                                       \
  }
DEFINE_CUDA_WAIT(cudaStreamSynchronize, (void* stream), (stream))
DEFINE_CUDA_WAIT(cudaEventSynchronize, (void* event), (event))
DEFINE_CUDA_WAIT(cudaDeviceSynchronize, (void), ())

/* Asked by the CUDA probe, whose own records of waits make each launch of a kernel as much dearer
 * as all its others together. A runtime that is a part of some library is not seen here. */
__attribute__((visibility("default"))) int lockstep_host_probe_tells_waits(void);
int lockstep_host_probe_tells_waits(void) {
  char path[400] = "";
  if (!failed) dl_iterate_phdr(path_of_runtime, path);
  return *path != '\0';
}

__attribute__((constructor)) static void start(void) {
  own_pid = getpid();
  if (!lockstep_probe_wanted("host")) {
    failed = 1; /* loaded, and not asked for */
    return;
  }
  pthread_atfork(NULL, NULL, after_fork);
}

__attribute__((destructor)) static void end(void) {
  if (ring != NULL && own_pid == getpid()) lockstep_ring_remove("host");
}
