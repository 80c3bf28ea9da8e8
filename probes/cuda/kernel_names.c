#define _GNU_SOURCE
#include "probes/cuda/kernel_names.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probes/wire/ring.h"

#define MOST_NAMES 16384U /* a power of two */

static struct lockstep_wire_header* ring;
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

uint32_t number_of_kernel(const char* name) {
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

int kernel_names_begin(struct lockstep_wire_header* to) {
  ring = to;
  names = calloc(MOST_NAMES, sizeof *names);
  said_names = calloc(MOST_NAMES, sizeof *said_names);
  void* const cxx = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_NOLOAD);
  if (cxx != NULL) *(void**)&demangle = dlsym(cxx, "__cxa_demangle");
  return names != NULL && said_names != NULL;
}

void kernel_names_forget_pointers(void) { memset(names, 0, MOST_NAMES * sizeof *names); }
