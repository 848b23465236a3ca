/* SPDX-License-Identifier: MIT */
/* What a test process has: threads and descriptors; and sockets that answer
   nothing. */
#ifndef POSTBAG_TEST_RESOURCES_H
#define POSTBAG_TEST_RESOURCES_H

#include <stdint.h>

/* Before anything is counted: a sanitizer has a thread of its own, which comes
   with the first one of the program. */
void resources_begin(void);
unsigned resources_threads(void);
unsigned resources_descriptors(void);
/* Wait up to 10 s until there are no more threads than these, or no fewer
   descriptors; 1 if so. */
int resources_wait_threads(unsigned at_most);
int resources_wait_descriptors(unsigned at_least);
int64_t resources_now_ms(void);

/* A free port of ::1; 0 if the machine has no ::1. */
int resources_free_port6(void);

/* Connections to it are made, by the kernel, and nobody ever reads them. */
struct silence {
    int listener;
    int fillers[8]; /* what fills its queue; -1: nothing */
    int taken;      /* see silence_wait_bytes */
    int port;
};
void silence_open(struct silence *s);
/* From now on the kernel does not answer new connections either. */
void silence_deepen(struct silence *s);
/* Wait until somebody has connected and sent something; keep it open. */
void silence_wait_bytes(struct silence *s);
/* Close that one. */
void silence_hang_up(struct silence *s);
void silence_close(struct silence *s);

#endif
