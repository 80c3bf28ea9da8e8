#define _GNU_SOURCE
#include "probes/cuda/threads.h"

#include <ctype.h>
#include <dirent.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probes/wire/ring_file.h"

#define MOST_THREADS 1024
#define MOST_OF_CUPTI 16
#define SLEEPS_NS 500000000U /* NCCL's watchdog asks its events ten times a second */

struct thread_runs {
  int number;
  uint64_t ran_ns;
  uint64_t times;
};

struct thread_list {
  struct thread_runs threads[MOST_THREADS];
  int count;
  int complete;
};

static struct thread_list before;
static struct thread_list watched;
static uint64_t watched_since_ns;
static int of_cupti[MOST_OF_CUPTI];
static int of_cupti_count;
static _Atomic int our_own;

static int read_of_thread(int number, const char* what, char* text, size_t size) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/%s", number, what);
  FILE* const file = fopen(path, "re");
  if (file == NULL) return 0;
  const int done = fgets(text, (int)size, file) != NULL;
  fclose(file);
  return done;
}

static int read_name(int number, char* name, size_t size) {
  return read_of_thread(number, "comm", name, size);
}

/* How often the kernel gave it a processor, and for how long: one that never lets go of its own is
 * told by the second. Kernels that do not count say 0 of all, also of the one that asks. */
static int read_runs(int number, struct thread_runs* runs) {
  char text[96];
  unsigned long long ran = 0;
  unsigned long long waited = 0;
  unsigned long long times = 0;
  if (!read_of_thread(number, "schedstat", text, sizeof text) ||
      sscanf(text, "%llu %llu %llu", &ran, &waited, &times) != 3 ||
      (times == 0 && number == gettid()))
    return 0;
  *runs = (struct thread_runs){number, ran, times};
  return 1;
}

static void list_threads(struct thread_list* list) {
  list->count = 0;
  list->complete = 0;
  DIR* const folder = opendir("/proc/self/task");
  if (folder == NULL) return;
  list->complete = 1;
  for (struct dirent* entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
    char name[32];
    const int number = atoi(entry->d_name);
    if (number <= 0) continue;
    if (list->count < MOST_THREADS && read_runs(number, &list->threads[list->count]))
      ++list->count;
    else if (read_name(number, name, sizeof name)) /* else it has ended meanwhile */
      list->complete = 0;
  }
  closedir(folder);
}

static const struct thread_runs* find(const struct thread_list* list, int number) {
  for (int i = 0; i < list->count; ++i)
    if (list->threads[i].number == number) return &list->threads[i];
  return NULL;
}

void threads_before_cupti(void) { list_threads(&before); }

void threads_behind_cupti(void) {
  static struct thread_list now;
  list_threads(&now);
  of_cupti_count = 0;
  for (int i = 0; i < now.count && before.complete; ++i)
    if (find(&before, now.threads[i].number) == NULL && of_cupti_count < MOST_OF_CUPTI)
      of_cupti[of_cupti_count++] = now.threads[i].number;
}

void threads_watch(void) {
  list_threads(&watched);
  watched_since_ns = lockstep_now_ns();
}

static int is_one_of(int number, const int* numbers, int count) {
  for (int i = 0; i < count; ++i)
    if (numbers[i] == number) return 1;
  return 0;
}

void threads_this_is_ours(void) { our_own = gettid(); }

/* The driver's own, and autograd's: idle behind a step. Threads that they start inherit the name.
 */
static int never_calls_cuda_now(const struct thread_list* all, int number) {
  static const char of_the_driver[] = "cuda-EvtHandlr";
  static const char of_autograd[] = "pt_autograd_";
  char name[32];
  char other[32];
  if (!read_name(number, name, sizeof name)) return 1; /* it has ended */
  name[strcspn(name, "\n")] = '\0';
  if (strcmp(name, of_the_driver) == 0) return 1;
  const char* digit = name + sizeof of_autograd - 1;
  if (strncmp(name, of_autograd, sizeof of_autograd - 1) != 0 || *digit == '\0') return 0;
  for (; *digit != '\0'; ++digit)
    if (!isdigit((unsigned char)*digit)) return 0;
  for (int i = 0; i < all->count; ++i) {
    if (all->threads[i].number == number || !read_name(all->threads[i].number, other, sizeof other))
      continue;
    other[strcspn(other, "\n")] = '\0';
    if (strcmp(name, other) == 0) return 0;
  }
  return 1;
}

/* One that has no processor yet has not run, and will. */
static int is_about_to_run(int number) {
  char text[128];
  if (!read_of_thread(number, "stat", text, sizeof text)) return 0;
  const char* const behind_name = strrchr(text, ')');
  return behind_name != NULL && behind_name[1] == ' ' && behind_name[2] == 'R';
}

int threads_rested(const int* harmless, int count) {
  static struct thread_list now;
  list_threads(&now);
  if (!watched.complete || !now.complete) return 0;
  const int caller = gettid();
  for (int i = 0; i < now.count; ++i) {
    const struct thread_runs* const is = &now.threads[i];
    const struct thread_runs* const was = find(&watched, is->number);
    const int has_run = was == NULL || was->times != is->times || was->ran_ns != is->ran_ns;
    if (is->number == caller || is->number == our_own || (!has_run && !is_about_to_run(is->number)))
      continue;
    if (!is_one_of(is->number, harmless, count) &&
        !is_one_of(is->number, of_cupti, of_cupti_count) && !never_calls_cuda_now(&now, is->number))
      return 0;
  }
  return 1;
}

int threads_would_have_run(void) { return lockstep_now_ns() - watched_since_ns > SLEEPS_NS; }
