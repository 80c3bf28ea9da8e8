/* Numbers for the names of kernels: a record holds a number, and the name is written once. */
#ifndef LOCKSTEP_KERNEL_NAMES_H
#define LOCKSTEP_KERNEL_NAMES_H

#include <stdint.h>

struct lockstep_wire_header;

/* 0: no memory. */
int kernel_names_begin(struct lockstep_wire_header* ring);
/* 0 for a kernel without a name, or where there are too many. */
uint32_t number_of_kernel(const char* name);
/* CUPTI left the process, and its texts went with it. */
void kernel_names_forget_pointers(void);

#endif
