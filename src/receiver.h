/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  Accepts commands: on disk before the PUBACK, or not acknowledged.
 *
 * accept runs on the transport's callback thread, one call at a time, on a
 * connection of its own.  It waits for its turn at the gate, where the worker,
 * which writes back to back, would else starve it, and then for SQLite's lock:
 * for accept_ms at most in all, because the transport may hold a lock of its
 * own.
 */
#ifndef POSTBAG_SRC_RECEIVER_H
#define POSTBAG_SRC_RECEIVER_H

#include <stdint.h>

#include "consumers.h"
#include "log.h"
#include "postbag/port.h"
#include "postbag/transport.h"
#include "shared.h"

struct receiver;

struct receiver_config {
    const char *db_path;
    const struct postbag_port *port; /* borrowed until close */
    struct log log;
    const struct consumers *consumers; /* borrowed until close */
    struct shared *shared;             /* with the gate; borrowed; NULL: none */
    uint32_t accept_ms;
    uint32_t max_payload; /* larger ones are kept as a dead stub; 0: any */
    struct postbag_wake *const *wakes; /* the workers'; borrowed until close */
    size_t wake_count;
    const char *reply_topics; /* borrowed until close; NULL or "": none */
    const char *identity;     /* these two: borrowed until close */
    const char *no_identity;
};

/* Rows, not frames: a frame for two consumers counts twice.  nacks and
 * unmatched count frames.  All modulo 2^32. */
struct receiver_counts {
    uint32_t accepted; /* new rows that are due, or wait for a version */
    uint32_t duplicates;
    uint32_t conflicts; /* an id that came again with other content */
    uint32_t dead;      /* new rows that no handler will see: no id, too big,
                           a version that is refused */
    uint32_t nacks;
    uint32_t unmatched;
};

POSTBAG_CHECK int postbag__receiver_open(struct receiver **out,
    const struct receiver_config *c, struct postbag_fault *why);

/*
 * Store one message for each consumer that it matches, in one transaction; of
 * a command that is done and comes again, put its reply once more.
 * POSTBAG_OK: on disk (or nobody wants it): send the PUBACK.
 * Negative: nothing was stored, do not acknowledge; every later frame of this
 * generation gets ESTATE, so that no command overtakes the refused one.
 */
POSTBAG_CHECK int postbag__receiver_accept(
    struct receiver *r, uint32_t generation, const struct postbag_frame *f);

/* Tell the log of commands that no handler will see: the first at once, then
 * how many came together.  Returns when there is more to say; INT64_MAX: no
 * time.  The engine's thread. */
int64_t postbag__receiver_tell(struct receiver *r, int64_t now_us);
/* Any thread. */
void postbag__receiver_counts(struct receiver *r, struct receiver_counts *out);
/* When no event can come any more.  NULL is fine. */
void postbag__receiver_close(struct receiver *r);

#endif
