/* A profiler plugin of the user's own, version 4 and 5: says what it is handed, one line a call, to
 * the file that USERS_PROFILER names. */
#include <stdio.h>
#include <stdlib.h>

#include "probes/nccl/nccl_profiler_abi.h"

static void say(const char* what, long number) {
  const char* const path = getenv("USERS_PROFILER");
  FILE* const file = path != NULL ? fopen(path, "a") : NULL;
  if (file == NULL) return;
  fprintf(file, "%s %ld\n", what, number);
  fclose(file);
}

static long handles;
static int start_event(void* context, void** handle, struct nccl_event_descriptor* event) {
  if (context != &handles) abort(); /* another plugin's */
  *handle = (void*)(++handles);
  say("start", (long)event->type);
  if (event->type == NCCL_EVENT_COLL) say("parent", (long)event->parent);
  return NCCL_OK;
}
static int stop_event(void* handle) {
  if ((long)handle < 1 || (long)handle > handles) abort();
  say("stop", (long)handle);
  return NCCL_OK;
}
static int record_state(void* handle, int state, union nccl_state_arguments* arguments) {
  (void)handle;
  (void)arguments;
  say("state", state);
  return NCCL_OK;
}
static int finalize(void* context) {
  (void)context;
  say("finalize", 0);
  return NCCL_OK;
}
static int init(void** context, uint64_t id, int* mask, const char* name, int nodes, int ranks,
                int rank, nccl_logger log) {
  (void)id, (void)name, (void)nodes, (void)rank, (void)log;
  *context = &handles;
  *mask = NCCL_EVENT_COLL;
  say("init", ranks);
  return NCCL_OK;
}

struct nccl_profiler_v5 ncclProfiler_v5 = {"users",    init,         start_event,
                                           stop_event, record_state, finalize};
