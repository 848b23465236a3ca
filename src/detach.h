/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  Destinations that hold the log back for too long or by too much
 * (options detach_after_s, detach_after_bytes) are detached: their cursors
 * jump to ours, and outbox_lost tells exactly what they missed.
 *
 * Only what our destination has settled and the other has not is looked at:
 * what waits for us, too, is stored anyway.  So the owner of a destination
 * judges the others, never itself.  Whoever owns the other one is fenced, and
 * begins anew behind the jump.  Engine thread, while it owns the destination.
 */
#ifndef POSTBAG_SRC_DETACH_H
#define POSTBAG_SRC_DETACH_H

#include "lease.h"
#include "outbox_store.h"

struct detach_options {
    uint32_t after_s, after_bytes; /* 0: never */
};

struct detach {
    struct db *db;
    struct lease *lease;
    const struct log *log;
    struct detach_options options;
    int64_t next_us;
    /* one that is under way: whom, and up to where; it takes several steps */
    int is_running;
    char other[65];
    int64_t upto[POSTBAG__LANES];
    int64_t rows, bytes; /* dropped so far */
};

void postbag__detach_init(struct detach *d, struct db *db, struct lease *lease,
    const struct log *log, const struct detach_options *options);
/* Ours since now_us.  The others' relays may be starting, too. */
void postbag__detach_begin(struct detach *d, int64_t now_us);
/* Do what is due, in one short transaction. */
POSTBAG_CHECK int postbag__detach_step(struct detach *d, int64_t now_us);
int64_t postbag__detach_deadline(const struct detach *d);

#endif
