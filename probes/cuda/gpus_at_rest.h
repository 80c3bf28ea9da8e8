/* Waits until the GPUs have done what this process gave them, but not for ever. */
#ifndef LOCKSTEP_GPUS_AT_REST_H
#define LOCKSTEP_GPUS_AT_REST_H

int gpus_at_rest_begin(void); /* 0: it cannot be */
int gpus_have_done_all(void);

#endif
