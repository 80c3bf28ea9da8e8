#define _GNU_SOURCE
#include "probes/cuda/gpus_at_rest.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

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
 * posted ahead), so another thread waits, and for this long at most; once it was too long it is not
 * tried again. */
#define GPUS_TAKE_S 1
static sem_t gpus_are_done;
static _Atomic int somebody_waits;
static int all_are_done; /* the waiting thread's, until it is joined */

static void* wait_beside(void* unused) {
  (void)unused;
  pthread_setname_np(pthread_self(), "lockstep-wait");
  all_are_done = wait_for_gpus();
  sem_post(&gpus_are_done);
  return NULL;
}

int gpus_have_done_all(void) {
  pthread_t waiting;
  if (atomic_exchange(&somebody_waits, 1)) return 0;
  if (pthread_create(&waiting, NULL, wait_beside, NULL) != 0) {
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
    pthread_detach(waiting);
    return 0;
  }
  pthread_join(waiting, NULL); /* and all that CUDA does at a thread's end */
  const int done = all_are_done;
  somebody_waits = 0;
  return done;
}

int gpus_at_rest_begin(void) { return sem_init(&gpus_are_done, 0, 0) == 0; }
