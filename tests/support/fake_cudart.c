/* CUDA's runtime without a GPU: a stream is the number of milliseconds that it takes. */
#include <time.h>

static int wait(long ms) {
  const struct timespec length = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&length, NULL);
  return 0;
}
int cudaStreamSynchronize(void* stream) { return wait((long)stream); }
int cudaEventSynchronize(void* event) { return wait((long)event); }
int cudaDeviceSynchronize(void) { return wait(30); }
