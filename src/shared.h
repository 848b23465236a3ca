/* SPDX-License-Identifier: MIT */
/*
 * Floor 0.  What an engine shares with the writers of its process: the fair
 * gate before SQLite's write lock, the wake-up, and how far commits are known
 * to be on disk.
 */
#ifndef POSTBAG_SRC_SHARED_H
#define POSTBAG_SRC_SHARED_H

#include <stdatomic.h>
#include <stdint.h>

#include "postbag/port.h"
#include "postbag/postbag.h"

struct shared {
    const struct postbag_port *port;
    struct postbag_gate *gate;
    struct postbag_wake *wake; /* the engine's */
    /* Low 32 bits of the newest seq known to be on disk because a commit with
       synchronous=FULL returned after it.  32 bits, because some targets have
       no 64-bit atomics; compared modulo 2^32 (see postbag__is_durable). */
    atomic_uint durable;
};

/* Everything up to seq is on disk: the lease was taken by a FULL commit after
 * it.  Once, so that later marks are near enough to be compared. */
void postbag__start_durable(struct shared *s, int64_t seq);
/* A FULL commit that put rows up to seq has returned. */
void postbag__note_durable(struct shared *s, int64_t seq);
/* Is the row known to be on disk?  seq must be within 2^31 of the truth,
 * which it is: it is newer than the cursor. */
int postbag__is_durable(struct shared *s, int64_t seq);

/* The gate, if there is one.  OK or EBUSY. */
POSTBAG_CHECK int postbag__gate_enter(struct shared *s, uint32_t wait_ms);
void postbag__gate_leave(struct shared *s);

#endif
