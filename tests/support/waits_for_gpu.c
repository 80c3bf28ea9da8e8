/* Stands for torch's libraries, which wait for a GPU by CUDA's runtime: loaded late, and out of
 * sight of the loader's RTLD_NEXT. */
int cudaStreamSynchronize(void* stream);
int cudaEventSynchronize(void* event);
int cudaDeviceSynchronize(void);

int waits_for_gpu(long ms);
int waits_for_gpu(long ms) {
  return cudaStreamSynchronize((void*)ms) + cudaEventSynchronize((void*)ms) +
         cudaDeviceSynchronize();
}
