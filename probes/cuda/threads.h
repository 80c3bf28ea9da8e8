/* The threads of this process: whether any has run that may call CUDA. */
#ifndef LOCKSTEP_PROBE_THREADS_H
#define LOCKSTEP_PROBE_THREADS_H

/* Called on the probe's own thread. */
void threads_this_is_ours(void);

/* Around what makes CUPTI start threads: they never call CUDA on their own account. */
void threads_before_cupti(void);
void threads_behind_cupti(void);

void threads_watch(void);
/* Since threads_watch: nobody ran, or is about to, but the caller, our own, CUPTI's, the driver's,
 * autograd's (idle behind a step) and the harmless. What cannot be read has run. */
int threads_rested(const int* harmless, int count);
/* Whether that is long enough ago for one that wakes up now and then to have done so. */
int threads_would_have_run(void);

#endif
