/* SPDX-License-Identifier: MIT */
/*
 * Floor 0.  Settled sends on their way from the transport's threads to the
 * engine's: a bounded queue for many posters and one reader on 32-bit C11
 * atomics (armel and mipsel have no wider ones).  It cannot overflow: there
 * is room for every slot of the window, and each settles once.
 */
#ifndef POSTBAG_SRC_MAILBOX_H
#define POSTBAG_SRC_MAILBOX_H

#include <stdatomic.h>
#include <stdint.h>

#include "postbag/postbag.h"

struct settled {
    uint32_t token;
    int err;
    int reason;
    char text[128]; /* what the broker said, printable; "" for nothing */
};

struct mailbox_cell {
    atomic_uint turn;
    struct settled letter;
};

struct mailbox {
    struct mailbox_cell *cells;
    uint32_t mask;
    atomic_uint tail; /* next to post */
    uint32_t head;    /* next to read; the reader's */
};

/* Room for at least `room` letters. */
POSTBAG_CHECK int postbag__mailbox_init(struct mailbox *m, uint32_t room);
void postbag__mailbox_free(struct mailbox *m);
/* Any thread, never blocks.  EAGAIN if the promise above is broken. */
POSTBAG_CHECK int postbag__mailbox_post(
    struct mailbox *m, const struct settled *letter);
/* The reader's thread: 1 and the oldest letter, or 0. */
int postbag__mailbox_take(struct mailbox *m, struct settled *out);

#endif
