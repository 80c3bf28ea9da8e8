/* A probe's ring as a file in the folder where lockstep looks: made at the first record, mapped
 * shared.
 *
 * For probes in C that run within other people's processes. Calls the kernel directly where the
 * host probe watches the C library. */
#ifndef LOCKSTEP_RING_FILE_H
#define LOCKSTEP_RING_FILE_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ring.h"

static inline uint64_t lockstep_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

/* To the terminal, once: whatever a probe has to say. */
static inline void lockstep_probe_says(const char* words, const char* more) {
  char text[400];
  const int length = snprintf(text, sizeof text, "lockstep: %s%s\n", words, more);
  if (length > 0)
    (void)syscall(SYS_write, STDERR_FILENO, text,
                  (size_t)(length < (int)sizeof text ? length : (int)sizeof text - 1));
}

/* Whether LOCKSTEP_PROBE asks for the probe of this name. */
static inline int lockstep_probe_wanted(const char* name) {
  const char* wanted = getenv("LOCKSTEP_PROBE");
  const size_t length = strlen(name);
  while (wanted != NULL && *wanted != '\0') {
    if (strncmp(wanted, name, length) == 0 && (wanted[length] == '\0' || wanted[length] == ','))
      return 1;
    wanted = strchr(wanted, ',');
    if (wanted != NULL) ++wanted;
  }
  return 0;
}

static inline int32_t lockstep_number_of(const char* name) {
  const char* const text = getenv(name);
  if (text == NULL || *text == '\0') return -1;
  return (int32_t)strtol(text, NULL, 10);
}

/* The folder of rings; 0 where it is not known or not ours. */
static inline int lockstep_ring_folder(char* folder, size_t size) {
  const char* const named = getenv("LOCKSTEP_PROBE_FOLDER");
  const char* const runtime = getenv("XDG_RUNTIME_DIR");
  int length = 0;
  if (named != NULL && *named != '\0') {
    length = snprintf(folder, size, "%s", named);
  } else if (runtime != NULL && *runtime != '\0') {
    length = snprintf(folder, size, "%s/lockstep", runtime);
    mkdir(folder, 0700);
  } else {
    const char* const temporary = getenv("TMPDIR");
    length =
        snprintf(folder, size, "%s/lockstep-%u",
                 temporary != NULL && *temporary != '\0' ? temporary : "/tmp", (unsigned)getuid());
    mkdir(folder, 0700);
  }
  if (length <= 0 || length >= (int)size) return 0;
  struct stat facts;
  return lstat(folder, &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == getuid() &&
         (facts.st_mode & 0022) == 0;
}

static inline int lockstep_ring_path(const char* name, char* path, size_t size) {
  char folder[400];
  if (!lockstep_ring_folder(folder, sizeof folder)) return 0;
  const int length = snprintf(path, size, "%s/%s-%d.ring", folder, name, (int)getpid());
  return length > 0 && length < (int)size;
}

/* NULL: it could not be made; `why` then says why. */
static inline struct lockstep_wire_header* lockstep_ring_create(const char* name,
                                                                enum lockstep_role role,
                                                                uint32_t slots, const char** why) {
  char path[512];
  *why = "its folder is missing or belongs to somebody else";
  if (!lockstep_ring_path(name, path, sizeof path)) return NULL;
  unlink(path); /* of a process that had our number before */
  *why = "no file";
  const int file = (int)syscall(SYS_openat, AT_FDCWD, path,
                                O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return NULL;
  const uint64_t bytes = lockstep_wire_bytes(slots);
  void* mapped = MAP_FAILED;
  if (posix_fallocate(file, 0, (off_t)bytes) == 0)
    mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  syscall(SYS_close, file);
  *why = "no room";
  if (mapped == MAP_FAILED) {
    unlink(path);
    return NULL;
  }
  struct lockstep_wire_header* const made = (struct lockstep_wire_header*)mapped;
  made->role = (uint32_t)role;
  made->rank_plus_1 = lockstep_number_of("RANK") + 1;
  made->world_size = lockstep_number_of("WORLD_SIZE") > 0 ? lockstep_number_of("WORLD_SIZE") : 0;
  made->parent_pid = (int32_t)getppid();
  lockstep_ring_open(made, slots, (int32_t)getpid(), lockstep_now_ns());
  return made;
}

/* Of a folder that is nobody's in particular; one that was named is its owner's to clean. */
static inline void lockstep_ring_remove(const char* name) {
  const char* const named = getenv("LOCKSTEP_PROBE_FOLDER");
  char path[512];
  if (named != NULL && *named != '\0') return;
  if (lockstep_ring_path(name, path, sizeof path)) unlink(path);
}

#endif
