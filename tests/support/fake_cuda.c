/* A CUDA driver without a GPU, for the CUDA probe: two devices, of which this process uses the
 * second. */
#include <stddef.h>

static int context;
static int current;
static unsigned waits;

int cuDeviceGetCount(int* devices) {
  *devices = 2;
  return 0;
}
int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  *flags = 0;
  *active = device == 1;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** retained, int device) {
  *retained = &context;
  return device == 1 ? 0 : 1;
}
int cuDevicePrimaryCtxRelease_v2(int device) { return device == 1 ? 0 : 1; }
int cuCtxPushCurrent_v2(void* pushed) {
  current = pushed == &context;
  return !current;
}
int cuCtxPopCurrent_v2(void** popped) {
  *popped = &context;
  current = 0;
  return 0;
}
int cuCtxSynchronize(void) {
  if (!current) return 1;
  ++waits;
  return 0;
}

/* For tests. */
unsigned fake_cuda_waits(void) { return waits; }
